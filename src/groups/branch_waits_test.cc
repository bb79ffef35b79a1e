// Tasks that wait for several others at once, and tasks on their way back from a wait. A fault here crashes or hangs, so
// most of these tests run in a process of their own.
#include <coroutine>
#include <latch>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"
#include "support/coroutines.h"
#include "support/own_process.h"
#include "support/running.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

Task<void> nap(Running& running) {
  running.enter();
  co_await sleep_for(1s);
  running.leave();
}

TEST(BranchWaits, ATaskThatAwaitsTwoTasksAtOnceLendsItsPermitOnce) {
  expect_ends([] {
    SimScheduler sim;
    Running running(1);
    GroupExecutor executor({}, sim);
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto first = executor.submit("a", "1", [&] { return nap(running); });
      auto second = executor.submit("a", "2", [&] { return nap(running); });
      co_await when_all(await_one(first), await_one(second));
    });
    EXPECT_TRUE(parent.join().ok());
    EXPECT_EQ(executor.stats().running, 0U);
    EXPECT_TRUE(executor.submit("a", "next", answer).join().ok());
  });
}

TEST(BranchWaits, ATaskMayWaitForOneThatIsOnItsWayBack) {
  expect_ends([] {
    SimScheduler sim;
    TaskHandle<void> parent;
    TaskHandle<void> second;
    GroupExecutor executor({}, sim);
    parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto first = executor.submit("a", "first", [] {});
      second = executor.submit("a", "second", [&] { return await_one(parent); });
      co_await await_one(first);  // when it is done, `second` runs before the parent does
    });
    sim.run_until_idle();
    EXPECT_TRUE(second.is_done());
  });
}

TEST(BranchWaits, ATaskOnItsWayBackIsNotCountedAsRejected) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
    auto first = executor.submit("a", "first", [] {});
    (void)executor.submit("a", "second", [&] { executor.shutdown_group("a"); });
    co_await await_one(first);
  });
  EXPECT_TRUE(parent.join().ok());
  EXPECT_EQ(executor.stats().submitted, 3U);
  EXPECT_EQ(executor.stats().succeeded, 3U);
  EXPECT_EQ(executor.stats().rejected, 0U);
}

TEST(BranchWaits, AShutdownHearsOfTheEndOfATaskThatCameBack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_ends([] {
    ThreadPool pool({.threads = 3});
    for (int round = 0; round < 300; ++round) {
      std::latch submitted(1);
      GroupExecutor executor({}, pool);
      auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
        auto child = executor.submit("a", "child", [] {});
        submitted.count_down();
        co_await await_one(child);
      });
      submitted.wait();
      EXPECT_TRUE(executor.shutdown(1h));
      EXPECT_TRUE(parent.is_done());
    }
  });
}

TEST(BranchWaits, BranchesOfOneTaskMayWaitOnSeveralThreadsAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_ends([] {
    GroupExecutor executor({}, {.threads = 4});
    auto branch = [&](std::string key) -> Task<void> {
      for (int i = 0; i < 2'000; ++i) {
        auto child = executor.submit(key, "child", [] {});
        (void)co_await child;
      }
    };
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      co_await when_all(branch("b"), branch("c"), branch("d"));
    });
    EXPECT_TRUE(parent.join().ok());
  });
}

TEST(BranchWaits, ABranchGoesOnWhenItsOwnWaitIsOver) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 1}, sim);
  std::vector<std::string> order;
  auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
    auto first = executor.submit("b", "1", [&] { order.emplace_back("first"); });
    auto second = executor.submit("c", "1", [&] { order.emplace_back("second"); });
    auto go_on = [&]() -> Task<void> {
      co_await await_one(first);
      order.emplace_back("parent goes on");
    };
    co_await when_all(go_on(), await_one(second));
  });
  EXPECT_TRUE(parent.join().ok());
  // The branch comes back in front of the second task, and gives the permit back when it ends.
  EXPECT_EQ(order, (std::vector<std::string>{"first", "parent goes on", "second"}));
}

TEST(BranchWaits, WhenAnyReturnsWithTheFirstUnderAGlobalLimit) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 100}, sim);
  const TimePoint began = sim.now();
  auto parent = executor.submit("a", "parent", [&]() -> Task<std::size_t> {
    auto quick = executor.submit("b", "1", []() -> Task<void> { co_await sleep_for(50ms); });
    auto slow = executor.submit("c", "1", []() -> Task<void> { co_await sleep_for(3s); });
    co_return (co_await when_any(await_one(quick), await_one(slow))).index;
  });
  auto result = parent.join();
  EXPECT_EQ(result.value(), 0U);
  EXPECT_EQ(sim.now() - began, 50ms);
}

// When its turn at the global limit comes, it cannot use the permit: its group's is still lent.
void stand_in_line_and_lend(bool limit_goes_up) {
  expect_ends([limit_goes_up] {
    SimScheduler sim;
    std::coroutine_handle<> target_parked;
    std::coroutine_handle<> first_branch;
    std::coroutine_handle<> second_branch;
    TaskHandle<void> cancelled;
    TaskHandle<void> child;
    GroupExecutor executor({.default_group = {.max_concurrency = 2}, .global_max_in_flight = 2},
                           sim);
    auto wait_after = [](std::coroutine_handle<>& parked, TaskHandle<void>& handle) -> Task<void> {
      co_await Park{parked};
      co_await await_one(handle);
    };
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      co_await when_all(wait_after(first_branch, cancelled), wait_after(second_branch, child));
    });
    auto other = executor.submit("b", "1", [&]() -> Task<void> {
      auto target =
          executor.submit("c", "1", [&]() -> Task<void> { co_await Park{target_parked}; });
      co_await await_one(target);
    });
    sim.run_ready();  // `parent` and `target` hold the permits
    child = executor.submit("a", "child", [] {});
    cancelled = executor.submit("d", "1", [] {});
    sim.run_ready();                  // their groups stand in line
    first_branch.resume();            // `parent` lends its global permit, to group a
    target_parked.resume();           // `other` stands in line for its permit
    EXPECT_TRUE(cancelled.cancel());  // and so does `parent`
    second_branch.resume();           // which now lends its group's permit as well
    EXPECT_TRUE(!limit_goes_up || executor.set_global_limit(4).ok());
    sim.run_until_idle();
    EXPECT_TRUE(other.join().ok());
    EXPECT_TRUE(parent.join().ok());
    EXPECT_EQ(executor.stats().running, 0U);
    EXPECT_TRUE(executor.set_global_limit(1).ok());
    auto next = executor.submit("a", "next", answer);
    sim.run_until_idle();
    EXPECT_TRUE(next.is_done()) << "no permit is left over";
  });
}

TEST(BranchWaits, ATaskThatStandsInLineForItsGlobalPermitMayLendItsGroupsToo) {
  stand_in_line_and_lend(/*limit_goes_up=*/false);
}

TEST(BranchWaits, ATaskThatLendsItsGroupsPermitPassesOnWhatAHigherGlobalLimitGivesIt) {
  stand_in_line_and_lend(/*limit_goes_up=*/true);
}

// "task" has come back for its third branch, and keeps its permit while that runs. Then its wait for "own" ends, which was to
// give the permit back: "last", for which the second branch waits by way of "between", needs it.
TEST(BranchWaits, ATaskThatKeepsItsPermitWhenAWaitEndsGivesItToATaskThatItWaitsFor) {
  expect_ends([] {
    SimScheduler sim;
    std::coroutine_handle<> first_parked;
    std::coroutine_handle<> brief_parked;
    std::coroutine_handle<> between_parked;
    std::coroutine_handle<> branch_parked;
    TaskHandle<void> last;
    GroupExecutor executor({}, sim);
    const auto go_on = [&](std::coroutine_handle<>& parked) {
      parked.resume();
      sim.run_until_idle();
    };
    const auto park = [](std::coroutine_handle<>& parked) -> Task<void> { co_await Park{parked}; };
    auto brief = executor.submit("brief", [&] { return park(brief_parked); });
    auto between = executor.submit("between", [&]() -> Task<void> {
      co_await Park{between_parked};
      co_await await_one(last);
    });
    TaskHandle<void> own;
    auto task = executor.submit("g", "task", [&]() -> Task<void> {
      auto first = executor.submit("g", "first", [&] { return park(first_parked); });
      own = executor.submit("g", "own", [] {});
      last = executor.submit("g", "last", [] {});
      const auto comes_back = [&]() -> Task<void> {
        co_await await_one(brief);
        co_await Park{branch_parked};
      };
      co_await when_all(await_one(own), await_one(between), comes_back());
    });
    sim.run_until_idle();  // "first" has the permit
    go_on(brief_parked);
    go_on(first_parked);  // "task" has it again
    ASSERT_TRUE(branch_parked);
    go_on(between_parked);
    EXPECT_TRUE(own.cancel());
    go_on(branch_parked);
    ASSERT_TRUE(task.is_done());
    EXPECT_TRUE(task.join().ok());
  });
}

}  // namespace
}  // namespace keyway
