// When a task with several branches gives its permits back: not while one of them runs. A fault here may hang, so these
// tests run in processes of their own.
#include <atomic>
#include <chrono>
#include <coroutine>
#include <string>
#include <thread>
#include <utility>

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

// One branch of a task of the group "a" waits for `awaited`; another one runs until the test lets it end: the library
// does not know what a parked coroutine waits for.
void expect_no_start_beside_a_running_branch(GroupPolicy policy, const std::string& awaited_group) {
  SimScheduler sim;
  std::coroutine_handle<> parked;
  bool awaited_ran = false;
  GroupExecutor executor(std::move(policy), sim);
  const auto runs = [&]() -> Task<void> { co_await Park{parked}; };
  auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
    auto awaited = executor.submit(awaited_group, "awaited", [&] { awaited_ran = true; });
    co_await when_all(await_one(awaited), runs());
  });
  sim.run_until_idle();
  EXPECT_FALSE(awaited_ran);
  parked.resume();
  EXPECT_TRUE(parent.join().ok());
  EXPECT_TRUE(awaited_ran);
}

TEST(BranchPermits, ATaskOfTheGroupDoesNotRunBesideARunningBranch) {
  expect_ends([] { expect_no_start_beside_a_running_branch({}, "a"); });
}

TEST(BranchPermits, NorBesideOneUnderTheGlobalLimit) {
  expect_ends([] { expect_no_start_beside_a_running_branch({.global_max_in_flight = 1}, "b"); });
}

// The limit goes down while one branch waits and the other one runs.
TEST(BranchPermits, ALowerLimitTakesNoPermitFromARunningBranch) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.groups = {{"a", {.max_concurrency = 2}}}}, sim);
    std::coroutine_handle<> branch;
    std::coroutine_handle<> second_task;
    TaskHandle<void> other;
    TaskHandle<void> waits_for_other;
    bool other_ran = false;
    const auto runs = [&]() -> Task<void> { co_await Park{branch}; };
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      co_await when_all(await_one(waits_for_other), runs());
    });
    auto second =
        executor.submit("a", "second", [&]() -> Task<void> { co_await Park{second_task}; });
    other = executor.submit("a", "other", [&] { other_ran = true; });
    waits_for_other = executor.submit("b", "waits", [&] { return await_one(other); });
    sim.run_until_idle();
    ASSERT_TRUE(executor.set_limits("a", {.max_concurrency = 1}).ok());
    second_task.resume();
    sim.run_until_idle();
    EXPECT_TRUE(second.is_done());
    EXPECT_FALSE(other_ran);
    branch.resume();
    EXPECT_TRUE(parent.join().ok());
    EXPECT_TRUE(other_ran);
  });
}

TEST(BranchPermits, ABranchThatSleepsKeepsNobodyOut) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 1}, sim);
    auto parent = executor.submit("a", "parent", [&]() -> Task<TimePoint> {
      auto awaited = executor.submit("a", "awaited", [] {});
      co_await when_all(await_one(awaited), []() -> Task<void> { co_await sleep_for(1h); }());
      co_return awaited.is_done() ? sim.now() : TimePoint{};
    });
    const TimePoint begun = sim.now();
    EXPECT_EQ(parent.join().value(), begun + 1h);
  });
}

// The sleep ends while another task has the permit.
TEST(BranchPermits, ABranchThatHasSleptGoesOnWithItsPermit) {
  expect_ends([] {
    SimScheduler sim;
    Running running(1);
    GroupExecutor executor({}, sim);
    const auto use = [&](Duration before) -> Task<void> {
      co_await sleep_for(before);
      running.enter();
      co_await sleep_for(10ms);
      running.leave();
    };
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto awaited = executor.submit("a", "awaited", [&] { return use(0ms); });
      co_await when_all(await_one(awaited), use(5ms));
    });
    EXPECT_TRUE(parent.join().ok());
  });
}

TEST(BranchPermits, WithTimeoutWaitsForATaskOfTheOwnGroup) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto awaited =
          executor.submit("a", "awaited", []() -> Task<void> { co_await sleep_for(1s); });
      co_await with_timeout(2s, await_one(awaited));
    });
    EXPECT_TRUE(parent.join().ok());
  });
}

// The thread blocks before the second branch has started.
TEST(BranchPermits, TheFirstBranchMayBlock) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 1}, sim);
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto first = executor.submit("a", "first", [] {});
      auto second = executor.submit("a", "second", [] {});
      co_await when_all(
          [&]() -> Task<void> {
            EXPECT_TRUE(first.join().ok());
            co_return;
          }(),
          await_one(second));
    });
    EXPECT_TRUE(parent.join().ok());
  });
}

TEST(BranchPermits, TheFirstBranchMayCallSyncWait) {
  expect_ends([] {
    ThreadPool pool({.threads = 2});
    GroupExecutor executor({.global_max_in_flight = 1}, pool);
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto first = executor.submit("a", "first", [] {});
      auto second = executor.submit("a", "second", [] {});
      co_await when_all(
          [&]() -> Task<void> {
            sync_wait(pool, await_one(first));
            co_return;
          }(),
          await_one(second));
    });
    EXPECT_TRUE(parent.join().ok());
  });
}

// The work that the timeout bounds has the permit of the caller, and ends when it is stopped.
TEST(BranchPermits, WithTimeoutNeedsNoPermitToFire) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 1}, sim);
    auto parent = executor.submit("a", [&]() -> Task<void> {
      co_await with_timeout(10ms, [&]() -> Task<void> {
        auto work =
            executor.submit("a", []() -> Task<void> { co_await sleep_for(std::chrono::hours(1)); });
        const std::stop_token token = co_await current_stop_token();
        const std::stop_callback cancel(token, [&] { work.cancel(); });
        co_await await_one(work);
      }());
    });
    EXPECT_EQ(parent.join_for(1min).status, TaskStatus::kFailed);
  });
}

// A branch is ready to go on, but its thread blocks in another branch.
TEST(BranchPermits, ABranchInSyncWaitMayBlockItsThread) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 1}, sim);
    auto parent = executor.submit("a", "parent", [&] {
      auto joined = executor.submit("a", "joined", [] {});
      const auto sleeps = []() -> Task<void> { co_await sleep_for(1ms); };
      const auto joins = [&]() -> Task<void> {
        sim.advance(2ms);  // the sleep is over
        EXPECT_TRUE(joined.join().ok());
        co_return;
      };
      sync_wait(sim, [&]() -> Task<void> { co_await when_all(sleeps(), joins()); }());
    });
    EXPECT_TRUE(parent.join().ok());
  });
}

// The coroutine that starts the branches stands below two calls of sync_wait().
TEST(BranchPermits, NestedSyncWaitsCountABranchOnce) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    std::coroutine_handle<> parked;
    bool inner_ran = false;
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto inner = executor.submit("a", "inner", [&] { inner_ran = true; });
      const auto runs = [&]() -> Task<void> { co_await Park{parked}; };
      const auto joins = [&]() -> Task<void> {
        (void)inner.join();
        co_return;
      };
      const auto nests = [&]() -> Task<void> {
        co_await reschedule();  // `runs` has begun
        sync_wait(sim, joins());
      };
      co_await when_all(runs(), nests());
    });
    sim.run_until_idle();
    EXPECT_FALSE(inner_ran);
    parked.resume();
    EXPECT_TRUE(parent.join().ok());
    EXPECT_TRUE(inner_ran);
  });
}

// Sleeps that end at about the same time, on two threads.
TEST(BranchPermits, SleepsOfBranchesMayEndTogether) {
  expect_ends([] {
    GroupExecutor executor({.default_group = {.max_concurrency = 4}}, {.threads = 2});
    const auto two_sleeps = []() -> Task<void> {
      const auto sleep = [](int us) -> Task<void> {
        co_await sleep_for(std::chrono::microseconds(us));
      };
      co_await when_all(sleep(100), sleep(101));
    };
    for (int i = 0; i < 2000; ++i) {
      auto first = executor.submit("a", two_sleeps);
      auto second = executor.submit("a", two_sleeps);
      EXPECT_TRUE(first.join().ok());
      EXPECT_TRUE(second.join().ok());
    }
  });
}

TEST(BranchPermits, BranchesOfBranches) {
  expect_ends([] {
    SimScheduler sim;
    Running running(1);
    GroupExecutor executor({.global_max_in_flight = 1}, sim);
    const auto nap = [&]() -> Task<void> {
      running.enter();
      co_await sleep_for(1ms);
      running.leave();
    };
    const auto submit_and_await = [&]() -> Task<void> {
      auto task = executor.submit("a", nap);
      co_await await_one(task);
      co_await sleep_for(1ms);
    };
    const auto several = [&]() -> Task<void> {
      co_await when_all(submit_and_await(), submit_and_await(), submit_and_await());
    };
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      co_await when_all(several(), submit_and_await(), several());
      co_await when_any(several(), submit_and_await());
      co_await nap();
    });
    EXPECT_TRUE(parent.join().ok());
    EXPECT_TRUE(executor.submit("a", nap).join().ok());
    EXPECT_EQ(executor.stats().running, 0U);
  });
}

// Branches wait, sleep, run and end on several threads, and no two tasks of the group run at once.
TEST(BranchPermits, HoldOnManyThreads) {
  expect_ends([] {
    GroupExecutor executor({.default_group = {.max_concurrency = 2}, .global_max_in_flight = 3},
                           {.threads = 4});
    Running running(2);
    const auto work = [&]() -> Task<void> {
      running.enter();
      std::this_thread::yield();
      running.leave();
      co_return;
    };
    const auto branch = [&](int number) -> Task<void> {
      for (int i = 0; i < 5; ++i) {
        auto task = executor.submit("a", work);
        if (number % 3 == 0) co_await sleep_for(std::chrono::microseconds(number));
        if (number % 2 == 0) co_await await_one(task);
      }
    };
    std::vector<TaskHandle<void>> parents;
    for (int i = 0; i < 100; ++i) {
      parents.push_back(executor.submit("a", [&, i]() -> Task<void> {
        co_await when_all(branch(i), branch(i + 1), branch(i + 2));
      }));
    }
    for (auto& parent : parents) EXPECT_TRUE(parent.join().ok());
    executor.drain();
    EXPECT_EQ(executor.stats().running, 0U);
  });
}

}  // namespace
}  // namespace keyway
