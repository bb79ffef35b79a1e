// Waits in user code that belongs to a task which does not run: rejection handlers, destructors of captures, and
// coroutines in sync_wait() on the stack of several tasks. A fault here hangs, so these tests run in processes of their
// own.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "runtime/wait_graph.h"
#include "support/at_end.h"
#include "support/coroutines.h"
#include "support/listeners.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

Task<void> nap() { co_await sleep_for(10ms); }

bool is_refused(TaskHandle<void>& handle) {
  try {
    (void)handle.join();
  } catch (const Exception& error) {
    return error.code() == ErrorCode::kWaitCycle;
  }
  return false;
}

TEST(UserCodeWaits, ADestructorOfCapturesCannotWaitForItsTask) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    bool refused = false;
    TaskHandle<void> cancelled;
    auto before = executor.submit("a", nap);
    cancelled = executor.submit("a", [end = AtEnd([&] { refused = is_refused(cancelled); })] {});
    cancelled.cancel();
    EXPECT_TRUE(refused);
  });
}

TEST(UserCodeWaits, ADestructorOfCapturesCannotWaitForATaskThatWaitsForItsTask) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    bool refused = false;
    TaskHandle<void> waits;
    auto before = executor.submit("a", nap);
    auto cancelled = executor.submit("a", [end = AtEnd([&] { refused = is_refused(waits); })] {});
    waits = executor.submit("b", [&] { return await_one(cancelled); });
    sim.run_ready();  // `waits` begins its wait
    cancelled.cancel();
    EXPECT_TRUE(refused);
    EXPECT_TRUE(waits.join().ok());
  });
}

// Of one that shares the result of another task.
TEST(UserCodeWaits, ADestructorOfCapturesOfAFollowerCannotWaitForItsLeader) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    bool refused = false;
    const TaskOptions shares{.id = "x", .conflation = Conflation::kShareResult};
    TaskHandle<void> leader = executor.submit("a", shares, nap);
    auto follower = executor.submit(
        "a", shares, [end = AtEnd([&] { refused = is_refused(leader); })] { return nap(); });
    EXPECT_TRUE(follower.join().ok());
    EXPECT_TRUE(refused);
  });
}

// A drain waits for the user code, and the user code for the task that drains.
void expect_refused_by_drain(
    GroupPolicy policy, const std::function<void(GroupExecutor&, std::function<void()>)>& call) {
  SimScheduler sim;
  GroupExecutor drains({}, sim);
  bool refused = false;
  std::atomic<bool> begun{false};
  TaskHandle<void> drain;
  std::function<void()> user_code = [&] {
    begun = true;
    sim.advance(1ms);
    sim.run_ready();  // the drain begins
    refused = is_refused(drain);
  };
  if (policy.rejection_handler) {
    policy.rejection_handler = [&](std::string_view, std::string_view) {
      user_code();
      return RejectionPolicy::kDiscard;
    };
  }
  policy.groups["full"] = {.max_concurrency = 1, .queue_threshold = 0};
  GroupExecutor executor(std::move(policy), sim);
  auto fills = executor.submit("full", nap);
  drain = drains.submit("d", [&]() -> Task<void> {
    while (!begun) co_await sleep_for(100us);
    executor.drain();
  });
  call(executor, user_code);
  EXPECT_TRUE(refused);
  EXPECT_TRUE(drain.join().ok());
}

TEST(UserCodeWaits, ARejectionHandlerCannotWaitForATaskThatDrains) {
  expect_ends([] {
    GroupPolicy policy;
    policy.rejection_handler = [](std::string_view, std::string_view) {
      return RejectionPolicy::kDiscard;
    };
    expect_refused_by_drain(std::move(policy), [](GroupExecutor& executor, auto) {
      EXPECT_EQ(executor.submit("full", [] {}).join().status, TaskStatus::kRejected);
    });
  });
}

TEST(UserCodeWaits, ADestructorOfCapturesCannotWaitForATaskThatDrains) {
  expect_ends([] {
    expect_refused_by_drain({}, [](GroupExecutor& executor, std::function<void()> user_code) {
      auto before = executor.submit("a", nap);
      auto cancelled = executor.submit("a", [end = AtEnd(std::move(user_code))] {});
      cancelled.cancel();
    });
  });
}

TEST(UserCodeWaits, ARejectionHandlerMayDrain) {
  expect_ends([] {
    SimScheduler sim;
    GroupPolicy policy;
    GroupExecutor* executor = nullptr;
    bool drained = false;
    policy.groups["full"] = {.max_concurrency = 1, .queue_threshold = 0};
    policy.rejection_handler = [&](std::string_view, std::string_view) {
      executor->drain();
      drained = true;
      return RejectionPolicy::kCallerRuns;
    };
    GroupExecutor made(std::move(policy), sim);
    executor = &made;
    auto fills = made.submit("full", nap);
    EXPECT_TRUE(made.submit("full", [] {}).join().ok());
    EXPECT_TRUE(drained);
  });
}

// The submitter runs the second task, which awaits a task that waits for the submitter.
TEST(UserCodeWaits, AnAwaitInSyncWaitCountsForAllTasksOnTheStack) {
  expect_ends([] {
    SimScheduler sim;
    GroupPolicy policy{.rejection = RejectionPolicy::kCallerRuns};
    policy.groups["full"] = {.max_concurrency = 1, .queue_threshold = 0};
    GroupExecutor executor(std::move(policy), sim);
    auto fills = executor.submit("full", nap);
    bool refused = false;
    TaskHandle<void> submitter;
    TaskHandle<void> waits;
    submitter = executor.submit("s", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      (void)executor.submit("full", [&] {
        try {
          sync_wait(sim, await_one(waits));
        } catch (const Exception& error) {
          refused = error.code() == ErrorCode::kWaitCycle;
        }
      });
    });
    waits = executor.submit("w", [&] { return await_one(submitter); });
    EXPECT_TRUE(waits.join().ok());
    EXPECT_TRUE(refused);
  });
}

// The listener calls sync_wait() on a thread outside of schedulers, and the coroutine blocks a thread of the pool.
TEST(UserCodeWaits, ABlockingWaitInSyncWaitCountsForTheListenerThatCallsIt) {
  expect_ends([] {
    const auto listener = std::make_shared<EndListener>();
    ThreadPool pool({.threads = 2});
    GroupExecutor executor({.listener = listener}, pool);
    bool refused = false;
    executor.pause_group("a");
    TaskHandle<void> cancelled = executor.submit("a", "cancelled", [] {});
    listener->ended = [&](const std::string& id) {
      if (id != "cancelled") return;
      sync_wait(pool, [&]() -> Task<void> {
        co_await sleep_for(1ms);
        refused = is_refused(cancelled);
      }());
    };
    cancelled.cancel();
    EXPECT_TRUE(refused);
  });
}

// The pool's only thread waits for the task whose listener calls sync_wait().
TEST(UserCodeWaits, ASyncWaitOfAListenerIsRefusedIfNoThreadIsLeft) {
  expect_ends([] {
    const auto listener = std::make_shared<EndListener>();
    ThreadPool pool({.threads = 1, .max_threads = 1});
    GroupExecutor executor({.listener = listener}, pool);
    ErrorCode code{};
    executor.pause_group("a");
    TaskHandle<void> cancelled = executor.submit("a", "cancelled", [] {});
    TaskHandle<void> waits;
    listener->ended = [&](const std::string& id) {
      if (id != "cancelled") return;
      waits = executor.submit("b", "waits", [&] { (void)cancelled.join(); });
      const detail::TaskCore& task = detail::HandleAccess::core(waits);
      while (WaitGraph::instance().waits_for(task).empty()) std::this_thread::yield();
      try {
        sync_wait(pool, []() -> Task<void> { co_await sleep_for(1ms); }());
      } catch (const Exception& error) {
        code = error.code();
      }
    };
    cancelled.cancel();
    EXPECT_EQ(code, ErrorCode::kNoThread);
    EXPECT_TRUE(waits.join().ok());
  });
}

// A listener on the stack of a task gives the permit of that task back, and goes on when the task has it again.
TEST(UserCodeWaits, AListenerGoesOnWithThePermitsOfTheTaskBelowIt) {
  expect_ends([] {
    SimScheduler sim;
    const auto listener = std::make_shared<EndListener>();
    GroupExecutor executor({.listener = listener}, sim);
    auto fills = executor.submit("y", "fills", []() -> Task<void> { co_await sleep_for(1s); });
    TaskHandle<void> cancelled = executor.submit("y", "cancelled", [] {});
    TaskHandle<void> joined;
    TaskHandle<void> waits;
    listener->ended = [&](const std::string& id) {
      if (id != "cancelled") return;
      joined = executor.submit("x", "joined", nap);
      waits = executor.submit("x", "waits", [&] { (void)is_refused(cancelled); });
      (void)joined.join();
    };
    auto below = executor.submit("x", "below", [&] { cancelled.cancel(); });
    EXPECT_TRUE(below.join().ok());
    EXPECT_TRUE(waits.join().ok());
  });
}

// The task that the submitter runs awaits one of the submitter's own group, under a global limit.
TEST(UserCodeWaits, AnAwaitInSyncWaitGivesBackThePermitsOfTheSubmitter) {
  expect_ends([] {
    SimScheduler sim;
    GroupPolicy policy{.global_max_in_flight = 2, .rejection = RejectionPolicy::kCallerRuns};
    policy.groups["full"] = {.max_concurrency = 1, .queue_threshold = 0};
    GroupExecutor executor(std::move(policy), sim);
    auto fills = executor.submit("full", []() -> Task<void> { co_await sleep_for(1h); });
    bool went_on = false;
    auto submitter = executor.submit("s", [&]() -> Task<void> {
      (void)executor.submit("full", [&] {
        auto awaited = executor.submit("s", [] {});
        sync_wait(sim, await_one(awaited));
        went_on = true;
      });
      co_return;
    });
    EXPECT_TRUE(submitter.join_for(1min).ok());
    EXPECT_TRUE(went_on);
  });
}

// The submitter starts a coroutine, which calls sync_wait() before its first suspension.
TEST(UserCodeWaits, ASyncWaitOfACoroutineGivesBackThePermitsOfTheSubmitterThatStartsIt) {
  expect_ends([] {
    SimScheduler sim;
    GroupPolicy policy{.global_max_in_flight = 1, .rejection = RejectionPolicy::kCallerRuns};
    policy.groups["full"] = {.max_concurrency = 1, .queue_threshold = 0};
    GroupExecutor executor(std::move(policy), sim);
    executor.pause_group("full");
    auto submitter = executor.submit("s", [&] {
      auto started = executor.submit("full", [&]() -> Task<void> {
        auto awaited = executor.submit("other", [] {});
        sync_wait(sim, await_one(awaited));
        co_return;
      });
      EXPECT_TRUE(started.join().ok());
    });
    EXPECT_TRUE(submitter.join().ok());
  });
}

}  // namespace
}  // namespace keyway
