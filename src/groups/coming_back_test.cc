// A task that gave permits back needs them, and perhaps a thread, to go on: waits that would take these for ever are
// refused.
#include <atomic>
#include <coroutine>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task_listener.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/coroutines.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

ThreadPoolOptions exactly(unsigned threads) { return {.threads = threads, .max_threads = threads}; }

// The code with which a call is refused.
template <class Call>
std::optional<ErrorCode> refusal(Call call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.code();
  }
  return std::nullopt;
}

// ---- a thread to come back on

TEST(ComingBack, AWaitWithATimeoutForTheOwnGroupNeedsASecondThread) {
  expect_ends([] {
    GroupExecutor executor({}, exactly(1));
    auto outer = executor.submit("g", [&] {
      auto inner = executor.submit("g", [] {});
      return refusal([&] { (void)inner.join_for(50ms); });
    });
    EXPECT_EQ(outer.join().value(), ErrorCode::kNoThread);
  });
}

TEST(ComingBack, AWaitForRoomInTheOwnGroupNeedsASecondThread) {
  expect_ends([] {
    GroupExecutor executor({.default_group = {.queue_threshold = 0}}, exactly(1));
    auto outer = executor.submit("g", [&] {
      const auto inner = executor.try_submit_for("g", 50ms, [] {});
      return inner.ok() ? std::nullopt : std::optional(inner.error().code);
    });
    EXPECT_EQ(outer.join().value(), ErrorCode::kNoThread);
  });
}

// T1 waits for X of its own group, and is in line for its permit while Y runs: Y must leave it a thread.
TEST(ComingBack, TheThreadOfATaskThatWantsItsPermitBackIsCounted) {
  expect_ends([] {
    GroupExecutor executor({}, exactly(2));
    std::optional<ErrorCode> refused;
    auto t1 = executor.submit("g", "T1", [&] {
      auto x = executor.submit("g", "X", [] {});
      executor
          .post("g", "Y",
                [&] {
                  auto z = executor.submit("g", "Z", [] {});
                  refused = refusal([&] { (void)z.join(); });
                })
          .value();
      EXPECT_TRUE(x.join().ok());
    });
    EXPECT_TRUE(t1.join().ok());
    executor.drain();
    EXPECT_TRUE(!refused ||
                refused == ErrorCode::kNoThread);  // T1 may have come back before Y began
  });
}

TEST(ComingBack, AThreadIsFreeOnlyWhenAllItsTasksHaveEnded) {
  expect_ends([] {
    GroupExecutor executor({.default_group = {.max_concurrency = 4}}, exactly(2));
    std::atomic<int> refused{0};
    auto x = executor.submit("x", [&] {
      std::vector<GroupTask<void>> tasks;
      tasks.emplace_back("a", [] {});
      tasks.emplace_back("b", [&] {
        auto c = executor.submit("c", [] {});
        if (refusal([&] { (void)c.join(); }) == ErrorCode::kNoThread) ++refused;
      });
      for (const auto& result : executor.execute_all(std::move(tasks))) EXPECT_TRUE(result.ok());
    });
    EXPECT_TRUE(x.join().ok());
    EXPECT_EQ(refused, 1);
  });
}

// ---- sync_wait() in a task

TEST(ComingBack, TheCoroutineOfSyncWaitIsAPartOfItsTask) {
  expect_ends([] {
    ThreadPool pool;
    GroupExecutor executor({.default_group = {.max_concurrency = 1}});
    const auto wait_inside = [&]() -> Task<int> {
      auto inner = executor.submit("g", [] { return 7; });
      co_return (co_await inner).value();
    };
    auto outer = executor.submit("g", [&] { return sync_wait(pool, wait_inside()); });
    EXPECT_EQ(outer.join().value(), 7);
  });
}

TEST(ComingBack, TheFirstWaitInSyncWaitKnowsThatTheThreadIsTaken) {
  expect_ends([] {
    ThreadPool pool(exactly(1));
    GroupExecutor executor({}, pool);
    const auto wait_inside = [&]() -> Task<std::optional<ErrorCode>> {
      auto inner = executor.submit("b", [] {});
      std::optional<ErrorCode> refused;
      try {
        (void)co_await inner;
      } catch (const Exception& exception) {
        refused = exception.code();
      }
      co_return refused;
    };
    auto outer = executor.submit("a", [&] { return sync_wait(pool, wait_inside()); });
    EXPECT_EQ(outer.join().value(), ErrorCode::kNoThread);
  });
}

// The thread is blocked once, by sync_wait() and by the join inside it.
TEST(ComingBack, AJoinInsideSyncWaitCountsItsThreadOnce) {
  expect_ends([] {
    ThreadPool pool(exactly(2));
    GroupExecutor executor({}, pool);
    const auto wait_inside = [&]() -> Task<int> {
      co_return executor.submit("b", [] { return 7; }).join().value();
    };
    auto outer = executor.submit("a", [&] { return sync_wait(pool, wait_inside()); });
    EXPECT_EQ(outer.join().value(), 7);
  });
}

// ---- a limit that goes down

class BlockedSubmit final : public TaskLifecycleListener {
 public:
  void on_submitted(std::string_view key, std::string_view) override {
    if (key != "second") return;
    submits.count_down();
    go_on.wait();
  }
  std::latch submits{1};
  std::latch go_on{1};
};

// While execute_all() submits, it has given nothing back yet.
TEST(ComingBack, ALimitMayGoDownWhileExecuteAllSubmits) {
  expect_ends([] {
    auto listener = std::make_shared<BlockedSubmit>();
    std::latch z_waits(1);
    GroupExecutor executor({.groups = {{"l", {.max_concurrency = 2}}}, .listener = listener},
                           ThreadPoolOptions{.threads = 4});
    std::latch limit_is_low(1);
    auto x = executor.submit("l", "x", [&] {
      std::vector<GroupTask<int>> tasks;
      tasks.emplace_back("first", [&] {
        // Occupies the second permit until the limit is low.
        executor.post("l", "w", [&] { limit_is_low.wait(); }).value();
        auto z = executor.submit("l", "z", [] { return 5; });
        z_waits.count_down();
        return z.join().value();
      });
      tasks.emplace_back("second", [] { return 2; });
      return executor.execute_all(std::move(tasks)).size();
    });
    listener->submits.wait();
    z_waits.wait();
    EXPECT_TRUE(executor.set_limit("l", 1).ok());
    limit_is_low.count_down();
    listener->go_on.count_down();
    EXPECT_EQ(x.join().value(), 2U);
  });
}

// ---- the global permit

// T stands in line for its global permit, and lends its group's permit meanwhile: so it cannot use the permit that the
// raised limit gives it.
TEST(ComingBack, ARaisedGlobalLimitTakesBackAPermitThatCannotBeUsedYet) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 1}, sim);
    const auto waits_for_another_group = [&]() -> Task<void> {
      auto x = executor.submit("x", []() -> Task<void> { co_await sleep_for(1ms); });
      // Has the global permit when T wants it back.
      executor.post("busy", []() -> Task<void> { co_await sleep_for(20ms); }).value();
      (void)co_await x;
    };
    const auto waits_for_its_own_group = [&]() -> Task<void> {
      co_await sleep_for(10ms);
      auto z = executor.submit("g", "z", [] {});
      (void)co_await z;
    };
    auto t = executor.submit("g", "T", [&]() -> Task<void> {
      co_await when_all(waits_for_another_group(), waits_for_its_own_group());
    });
    sim.advance(15ms);
    EXPECT_TRUE(executor.set_global_limit(2).ok());
    EXPECT_TRUE(t.join().ok());
    EXPECT_TRUE(executor.drain());
    EXPECT_TRUE(executor.set_global_limit(1).ok());
    EXPECT_TRUE(executor.submit("after", [] {}).join_for(1s).ok()) << "a permit was lost";
  });
}

// Comes back to its group "g" for its first branch; lends the permit of "g" to the task for which the second one waits; and
// comes back again.
Task<void> comes_back_twice(GroupExecutor& executor) {
  const auto waits_for_its_own_group = [&]() -> Task<void> {
    auto x = executor.submit("g", "x", []() -> Task<void> { co_await sleep_for(10ms); });
    (void)co_await x;
    co_await sleep_for(50ms);  // holds the global permit
  };
  const auto waits_for_another_group = [&]() -> Task<void> {
    auto y = executor.submit("h", "y", [&]() -> Task<void> {
      auto z = executor.submit("g", "z", []() -> Task<void> { co_await sleep_for(10ms); });
      (void)co_await z;
    });
    (void)co_await y;
  };
  co_await when_all(waits_for_its_own_group(), waits_for_another_group());
}

// T comes back to its group for one branch, and lends the group's permit once more to what the other branch waits for. It
// has its global permit already when it comes back for the second time.
TEST(ComingBack, ATaskThatComesBackToItsGroupTwiceHasOneGlobalPermit) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 2}, sim);
    auto t = executor.submit("g", "T", [&] { return comes_back_twice(executor); });
    EXPECT_TRUE(t.join().ok());
    EXPECT_TRUE(executor.drain());
    EXPECT_TRUE(executor.set_global_limit(1).ok());
    EXPECT_TRUE(executor.submit("after", [] {}).join_for(1s).ok()) << "a permit was lost";
  });
}

// The same, but the return stands in line for a global permit, of which the task has the only one.
TEST(ComingBack, ATaskGivesItsGlobalPermitToItsOwnReturn) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 2}, sim);
    auto t = executor.submit("g", "T", [&] { return comes_back_twice(executor); });
    sim.advance(15ms);  // T sleeps in its first branch, and lends its group's permit to z
    executor.post("first", []() -> Task<void> { co_await sleep_for(5ms); }).value();
    executor.post("second", []() -> Task<void> { co_await sleep_for(20ms); }).value();
    sim.advance(25ms);  // "second" has the other global permit, and T's second branch is over
    EXPECT_TRUE(executor.set_global_limit(1).ok());
    EXPECT_TRUE(t.join().ok());
    EXPECT_TRUE(executor.submit("after", [] {}).join_for(1s).ok()) << "a permit was lost";
  });
}

// "busy" has the global permit when T's wait ends, and "queued" stands in line for it before T does.
TEST(ComingBack, ATaskThatReturnsGetsTheGlobalPermitBeforeTasksThatHaveNotBegun) {
  SimScheduler sim;
  GroupExecutor elsewhere({}, sim);
  GroupExecutor executor({.global_max_in_flight = 1}, sim);
  const auto nap = [] { return sleep_for(10ms); };
  std::string order;
  auto t = executor.submit("t", [&]() -> Task<void> {
    auto target = elsewhere.submit("x", []() -> Task<void> { co_await sleep_for(5ms); });
    (void)co_await target;
    order += 't';
    co_await nap();
  });
  sim.run_ready();
  auto busy = executor.submit("busy", [&]() -> Task<void> { co_await nap(); });
  sim.run_ready();
  auto queued = executor.submit("queued", [&]() -> Task<void> {
    order += 'q';
    co_await nap();
  });
  EXPECT_TRUE(t.join().ok());
  EXPECT_TRUE(queued.join().ok());
  EXPECT_EQ(order, "tq");
}

// ---- coroutines that strangers resume

TEST(ComingBack, ACoroutineThatIsResumedInsideAnotherTaskLeavesThatTaskItsScope) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.default_group = {.max_concurrency = 1}}, sim);
    std::coroutine_handle<> parked;
    const auto branch = [&]() -> Task<int> {
      co_await Park{parked};
      co_return 1;
    };
    auto a = executor.submit("a", [&]() -> Task<int> {
      auto [one] = co_await when_all(branch());
      co_return one;
    });
    sim.run_until_idle();
    auto b = executor.submit("b", [&] {
      parked.resume();  // runs a to its end, here
      return executor.submit("b", [] { return 2; }).join().value();
    });
    EXPECT_EQ(b.join().value(), 2);
    EXPECT_EQ(a.join().value(), 1);
  });
}

// Goes on on a thread that ends when the coroutine suspends next.
struct OnThreadOfItsOwn {
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) {
    // The coroutine goes on, and this awaiter may be gone, before the assignment.
    std::thread& its_own = thread;
    std::latch& is_assigned = assigned;
    its_own = std::thread([coroutine] { coroutine.resume(); });
    is_assigned.count_down();
  }
  void await_resume() const {}
  std::thread& thread;
  std::latch& assigned;
};

TEST(ComingBack, AWaitThatBeganOnAThreadThatIsGoneEnds) {
  GroupExecutor executor({.default_group = {.max_concurrency = 1}});
  std::latch go_on(1);
  std::thread thread;
  std::latch assigned(1);
  std::latch waits(1);
  auto slow = executor.submit("slow", [&] {
    go_on.wait();
    return 1;
  });
  auto a = executor.submit("a", [&]() -> Task<int> {
    co_await OnThreadOfItsOwn{thread, assigned};
    waits.count_down();
    co_return (co_await slow).value();
  });
  waits.wait();
  assigned.wait();
  thread.join();  // its thread-local memory is gone
  go_on.count_down();
  EXPECT_EQ(a.join().value(), 1);
}

}  // namespace
}  // namespace keyway
