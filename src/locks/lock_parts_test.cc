// Locks that a part of an operation took and has not released when it ends: the operation has them then.
#include <atomic>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/serial_dispatcher.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"
#include "support/coroutines.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

Task<KeyLocks::Guard> take(KeyLocks& locks, std::string key) {
  co_return co_await locks.lock_async(key);
}

TEST(LockParts, ACoroutineCanLockAgainWhatItsBranchLocked) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    auto task = executor.submit("g", [&]() -> Task<void> {
      const KeyLocks::Guard first = co_await with_timeout(1s, take(locks, "k"));
      const KeyLocks::Guard second = co_await locks.lock_async("k");
      EXPECT_TRUE(locks.try_lock("k"));
    });
    EXPECT_TRUE(task.join().ok());
    EXPECT_EQ(locks.active_lock_count(), 0U);
    EXPECT_EQ(detail::parts_with_locks(), 0U);
  });
}

TEST(LockParts, AnotherOperationIsStillKeptOut) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  auto task = executor.submit("g", [&]() -> Task<void> {
    const auto guards = co_await when_all(take(locks, "k"), take(locks, "l"));
    co_await sleep_for(10ms);
  });
  auto other = executor.submit("h", [&]() -> Task<bool> {
    co_await sleep_for(1ms);
    co_return static_cast<bool>(locks.try_lock("k")) || static_cast<bool>(locks.try_lock("l"));
  });
  EXPECT_FALSE(other.join().value());
  EXPECT_TRUE(task.join().ok());
}

TEST(LockParts, AThreadCanLockAgainWhatItGotFromSyncWait) {
  expect_ends([] {
    KeyLocks locks;
    ThreadPool pool({.threads = 2});
    KeyLocks::Guard first = sync_wait(pool, take(locks, "k"));
    const KeyLocks::Guard second = locks.lock("k");
    bool taken_by_another = true;
    std::thread([&] { taken_by_another = static_cast<bool>(locks.try_lock("k")); }).join();
    EXPECT_FALSE(taken_by_another);
    std::thread([guard = std::move(first)] {}).join();
    EXPECT_EQ(detail::parts_with_locks(), 0U);
  });
}

TEST(LockParts, ACycleThroughALockOfAnEndedBranchIsRefused) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    const auto both = [&](std::string first, std::string second) -> Task<void> {
      const KeyLocks::Guard one = co_await with_timeout(1s, take(locks, std::move(first)));
      co_await sleep_for(10ms);
      const KeyLocks::Guard two = co_await take(locks, std::move(second));
    };
    auto a = executor.submit("g1", [&] { return both("a", "b"); });
    auto b = executor.submit("g2", [&] { return both("b", "a"); });
    const TaskStatus of_a = a.join().status;
    const TaskStatus of_b = b.join().status;
    EXPECT_NE(of_a == TaskStatus::kSuccess, of_b == TaskStatus::kSuccess);
  });
}

// The wait of `other` for the task's lock is there before the branch that makes it a cycle.
TEST(LockParts, ACycleThroughABranchThatNeverLockedIsRefused) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    TaskHandle<bool> other;
    auto waits = [&]() -> Task<bool> {
      try {
        co_await sleep_for(2ms);
        (void)co_await other;
      } catch (const Exception& error) {
        co_return error.code() == ErrorCode::kWaitCycle;
      }
      co_return false;
    };
    auto task = executor.submit("g", [&]() -> Task<bool> {
      co_return std::get<0>(co_await when_all(waits(), take(locks, "k")));
    });
    other = executor.submit("h", [&]() -> Task<bool> {
      co_await sleep_for(1ms);
      (void)co_await locks.lock_async("k");
      co_return true;
    });
    EXPECT_TRUE(task.join().value());
    EXPECT_TRUE(other.join().ok());
  });
}

// Each wait was accepted while the branch that held the lock could still release it.
void expect_one_is_refused(bool blocks) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  const auto keep = [&](const char* key, Duration before, Duration after) -> Task<KeyLocks::Guard> {
    co_await sleep_for(before);
    KeyLocks::Guard guard;
    if (blocks) {
      guard = locks.lock(key);
    } else {
      guard = co_await locks.lock_async(key);
    }
    co_await sleep_for(after);
    co_return guard;
  };
  const auto both = [&](Task<KeyLocks::Guard> a, Task<KeyLocks::Guard> b) -> Task<void> {
    const auto guards = co_await when_all(std::move(a), std::move(b));
  };
  auto one = executor.submit("g", [&] { return both(keep("a", 0ms, 10ms), keep("b", 5ms, 0ms)); });
  auto two = executor.submit("h", [&] { return both(keep("a", 1ms, 0ms), keep("b", 0ms, 0ms)); });
  EXPECT_TRUE(one.join().ok());
  EXPECT_EQ(two.join().status, TaskStatus::kFailed);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}
TEST(LockParts, AnEndedBranchThatClosesACycleHasAWaitRefused) {
  expect_ends([] {
    expect_one_is_refused(false);
    expect_one_is_refused(true);
  });
}

// The second branch stands in line, behind another operation, when the first one ends with the lock.
TEST(LockParts, TheLockOfAnEndedBranchIsOpenToItsSiblings) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    const auto keep = [&](Duration before, Duration after) -> Task<KeyLocks::Guard> {
      co_await sleep_for(before);
      KeyLocks::Guard guard = co_await locks.lock_async("k");
      co_await sleep_for(after);
      co_return guard;
    };
    std::vector<std::string> order;
    auto task = executor.submit("g", [&]() -> Task<void> {
      const auto guards = co_await when_all(keep(0ms, 10ms), keep(2ms, 0ms));
      order.emplace_back("task");
    });
    auto other = executor.submit("h", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      (void)co_await locks.lock_async("k");
      order.emplace_back("other");
    });
    EXPECT_TRUE(task.join().ok());
    EXPECT_TRUE(other.join().ok());
    EXPECT_EQ(order, (std::vector<std::string>{"task", "other"}));
  });
}

// It has the lock, and awaits a task that wants it.
TEST(LockParts, ACoroutineOutsideOfTasksCannotAwaitATaskThatWantsItsLock) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    const auto refused = [&]() -> Task<bool> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      auto wants =
          executor.submit("g", [&]() -> Task<void> { (void)co_await locks.lock_async("k"); });
      co_await sleep_for(1ms);
      try {
        (void)co_await wants;
      } catch (const Exception& error) {
        co_return error.code() == ErrorCode::kWaitCycle;
      }
      co_return false;
    };
    EXPECT_TRUE(sync_wait(sim, refused()));
  });
}

TEST(LockParts, BranchesGetTheLockOfTheirOperationInTheOrderTheyAsked) {
  for (const bool passed_on : {false, true}) {
    SimScheduler sim;
    KeyLocks locks;
    std::string order;
    const auto branch = [&](char name) -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      order += name;
      co_await sleep_for(1ms);
    };
    const auto keep = [&]() -> Task<KeyLocks::Guard> {
      KeyLocks::Guard guard = co_await locks.lock_async("k");
      co_await sleep_for(1ms);
      co_return guard;
    };
    sync_wait(sim, [&]() -> Task<void> {
      if (passed_on) {
        co_await when_all(keep(), branch('1'), branch('2'), branch('3'), branch('4'));
      } else {
        const KeyLocks::Guard guard = co_await locks.lock_async("k");
        co_await when_all(branch('1'), branch('2'), branch('3'), branch('4'));
      }
    }());
    EXPECT_EQ(order, "1234");
  }
}

TEST(LockParts, ACallInsideALaneLeavesItsLocksToTheCaller) {
  expect_ends([] {
    SerialDispatcher dispatcher({});
    KeyLocks locks;
    const Result<bool> again = dispatcher.run("a", [&] {
      KeyLocks::Guard guard;
      (void)dispatcher.run("a", [&] { guard = locks.lock("k"); });
      return static_cast<bool>(locks.lock("k"));
    });
    EXPECT_TRUE(again.value());
    EXPECT_EQ(detail::parts_with_locks(), 0U);
  });
}

// A sleeping branch has a lock, and needs the permit that the lock's waiter has.
TEST(LockParts, AWaitForALockOfASleepingBranchIsRefusedIfItKeepsThePermit) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    bool refused = false;
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto wants = executor.submit("a", "wants", [&]() -> Task<void> {
        try {
          (void)co_await locks.lock_async("k");
        } catch (const Exception& error) {
          refused = error.code() == ErrorCode::kWaitCycle;
        }
      });
      auto last = executor.submit("a", "last", [] {});
      const auto sleeps = [&]() -> Task<void> {
        const KeyLocks::Guard guard = co_await locks.lock_async("k");
        co_await sleep_for(10ms);
      };
      co_await when_all(sleeps(), await_one(last));
    });
    EXPECT_TRUE(parent.join().ok());
    EXPECT_TRUE(refused);
  });
}

TEST(LockParts, TheHolderIsNamedAsTheTask) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  auto task = executor.submit("g", "A", [&]() -> Task<std::string> {
    const KeyLocks::Guard guard = co_await with_timeout(1s, take(locks, "k"));
    co_return locks.holders("k").at(0).name;
  });
  EXPECT_EQ(task.join().value(), "task \"A\" of group \"g\"");
}

TEST(LockParts, AHolderWhosePartPassedItsLockOnIsNamedOnce) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  auto task = executor.submit("g", "A", [&]() -> Task<std::string> {
    const KeyLocks::Guard first = co_await with_timeout(1s, take(locks, "k"));
    const KeyLocks::Guard second = co_await with_timeout(1s, take(locks, "k"));
    const KeyLocks::Guard own = co_await locks.lock_async("k");
    co_return locks.explain("k").text();
  });
  EXPECT_EQ(task.join().value(), "key \"k\": held by task \"A\" of group \"g\" 3 times");
}

TEST(LockParts, ALockPassesThroughSeveralParts) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    auto task = executor.submit("g", [&]() -> Task<void> {
      const auto [guard] = co_await when_all(with_timeout(1s, with_timeout(1s, take(locks, "k"))));
      const KeyLocks::Guard again = co_await locks.lock_async("k");
      EXPECT_GT(detail::parts_with_locks(), 0U);
    });
    EXPECT_TRUE(task.join().ok());
    EXPECT_EQ(detail::parts_with_locks(), 0U);
  });
}

// A loop that takes its locks in branches leaves nothing behind, and so does a task that gives its guard away.
TEST(LockParts, NothingIsKeptOfLocksThatAreReleased) {
  KeyLocks locks;
  GroupExecutor executor({}, {.threads = 2});
  auto loop = executor.submit("g", [&]() -> Task<void> {
    for (int i = 0; i < 1000; ++i) {
      const KeyLocks::Guard guard = co_await with_timeout(1s, take(locks, "k"));
    }
    EXPECT_EQ(detail::parts_with_locks(), 0U);
  });
  EXPECT_TRUE(loop.join().ok());
  KeyLocks::Guard left;
  auto gives = executor.submit(
      "g", [&]() -> Task<void> { left = co_await with_timeout(1s, take(locks, "k")); });
  EXPECT_TRUE(gives.join().ok());
  left.release();
  EXPECT_EQ(detail::parts_with_locks(), 0U);
}

TEST(LockParts, NothingIsKeptOfLocksThatAnotherOperationReleased) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  const auto give_away = [&](bool waits) -> Task<void> {
    KeyLocks::Guard guard = co_await locks.lock_async("k");
    auto releases = executor.submit("h", [given = std::move(guard)]() mutable { given.release(); });
    if (waits) (void)co_await releases;
  };
  auto task = executor.submit("g", [&]() -> Task<void> {
    co_await when_all(give_away(true), give_away(false));
    co_await sleep_for(1ms);
    EXPECT_EQ(detail::parts_with_locks(), 0U);
  });
  EXPECT_TRUE(task.join().ok());
}

// Branches that end with locks on several threads, while others ask for the same keys.
TEST(LockParts, BranchesThatEndOnManyThreads) {
  expect_ends([] {
    KeyLocks locks;
    GroupExecutor executor({.default_group = {.max_concurrency = 8}}, {.threads = 4});
    std::atomic<int> inside{0};
    std::atomic<bool> together{false};
    const auto one = [&]() -> Task<void> {
      for (int i = 0; i < 200; ++i) {
        const auto guards = co_await when_all(take(locks, "a"), take(locks, "b"), take(locks, "a"));
        if (inside.fetch_add(1) != 0) together = true;
        co_await sleep_for(0ms);
        inside.fetch_sub(1);
      }
    };
    std::vector<TaskHandle<void>> tasks;
    for (int i = 0; i < 4; ++i) tasks.push_back(executor.submit("g", one));
    int refused = 0;
    for (auto& task : tasks) refused += task.join().ok() ? 0 : 1;
    EXPECT_LT(refused, 4);  // two tasks may hold a and b, and want the other key
    EXPECT_FALSE(together);
    EXPECT_EQ(locks.active_lock_count(), 0U);
    EXPECT_EQ(detail::parts_with_locks(), 0U);
  });
}

Task<int> lock_again(KeyLocks& locks, KeyLocks::Guard guard) {
  const KeyLocks::Guard again = co_await locks.lock_async("k");
  co_return guard&& again ? 1 : 0;
}

TEST(LockParts, ALockOfTheCallableBelongsToTheCoroutineThatItMakes) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    auto task = executor.submit("g", [&] { return lock_again(locks, locks.lock("k")); });
    EXPECT_EQ(task.join().value(), 1);
    EXPECT_EQ(locks.active_lock_count(), 0U);
  });
}

// "whole" would give the permit back that "other" keeps while it waits for the lock of the sleeping branch.
TEST(LockParts, AWaitOfABranchKnowsTheLockOfAnotherBranch) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({.default_group = {.max_concurrency = 2}}, sim);
    bool refused = false;
    const auto holds = [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      co_await sleep_for(30ms);
    };
    const auto waits = [&]() -> Task<void> {
      co_await sleep_for(10ms);
      auto third = executor.submit("g", [] {});
      try {
        (void)co_await third;
      } catch (const Exception& error) {
        refused = error.code() == ErrorCode::kWaitCycle;
      }
    };
    auto whole =
        executor.submit("g", [&]() -> Task<void> { (void)co_await when_all(holds(), waits()); });
    sim.run_ready();
    auto other = executor.submit(
        "g", [&]() -> Task<void> { const auto guard = co_await locks.lock_async("k"); });
    sim.run_ready();
    EXPECT_TRUE(executor.set_limit("g", 1));
    EXPECT_TRUE(other.join().ok());
    EXPECT_TRUE(whole.join().ok());
    EXPECT_TRUE(refused);
  });
}

// Two others stand in line before the branch, which now belongs in front of them.
TEST(LockParts, ABranchGetsALockThatPassedToTheWholeBeforeOthersInLine) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    KeyLocks::Guard kept;
    auto task = executor.submit("t", [&]() -> Task<void> {
      const auto keeps = [&]() -> Task<void> {
        kept = co_await locks.lock_async("k");
        co_await sleep_for(10ms);
      };
      const auto waits = [&]() -> Task<void> {
        co_await sleep_for(5ms);
        const KeyLocks::Guard guard = co_await locks.lock_async("k");
      };
      (void)co_await when_all(keeps(), waits());
      kept = {};
    });
    const auto stranger = [&]() -> Task<void> {
      co_await sleep_for(1ms);
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
    };
    auto first = executor.submit("first", stranger);
    auto second = executor.submit("second", stranger);
    EXPECT_TRUE(task.join().ok());
    EXPECT_TRUE(first.join().ok());
    EXPECT_TRUE(second.join().ok());
  });
}

TEST(LockParts, AllLocksOfABranchPassToTheWhole) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    auto task = executor.submit("t", [&]() -> Task<void> {
      KeyLocks::Guard first;
      KeyLocks::Guard second;
      const auto takes = [&]() -> Task<void> {
        first = co_await locks.lock_async("k1");
        second = co_await locks.lock_async("k2");
      };
      (void)co_await when_all(takes());
      first = {};
      co_await sleep_for(5ms);  // a stranger waits for k2 meanwhile
      const KeyLocks::Guard again = co_await locks.lock_async("k2");
    });
    auto stranger = executor.submit("s", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      const KeyLocks::Guard guard = co_await locks.lock_async("k2");
    });
    EXPECT_TRUE(task.join().ok());
    EXPECT_TRUE(stranger.join().ok());
  });
}

}  // namespace
}  // namespace keyway
