// sync_wait() within a task: its branches share one thread, so a branch that blocks it keeps the others from going on.
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

Task<void> lock_once(KeyLocks& locks) { const auto guard = co_await locks.lock_async("k"); }

// One branch holds the lock and sleeps; the other one waits for the lock in some way, and blocks the thread meanwhile.
void expect_one_refused(
    const std::function<void(SimScheduler&, GroupExecutor&, KeyLocks&)>& wait_for_lock) {
  expect_ends([&] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    bool refused = false;
    const auto holds = [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      co_await sleep_for(50ms);
    };
    const auto blocks = [&]() -> Task<void> {
      try {
        wait_for_lock(sim, executor, locks);
      } catch (const Exception& error) {
        refused = error.code() == ErrorCode::kWaitCycle;
      }
      co_return;
    };
    const auto both = [&]() -> Task<void> { (void)co_await when_all(holds(), blocks()); };
    auto task = executor.submit("g", [&] { sync_wait(sim, both()); });
    EXPECT_TRUE(task.join().ok());
    EXPECT_TRUE(refused);
    EXPECT_EQ(locks.active_lock_count(), 0U);
  });
}

TEST(InlineRun, ABranchCannotBlockForALockOfAnotherBranch) {
  expect_one_refused([](SimScheduler&, GroupExecutor&, KeyLocks& locks) { (void)locks.lock("k"); });
}

TEST(InlineRun, ABranchCannotBlockForATaskThatWaitsForALockOfAnotherBranch) {
  expect_one_refused([](SimScheduler&, GroupExecutor& executor, KeyLocks& locks) {
    auto other = executor.submit("other", [&] { (void)locks.lock("k"); });
    (void)other.join().value();
  });
}

TEST(InlineRun, ABranchCannotSyncWaitForALockOfAnotherBranch) {
  expect_one_refused(
      [](SimScheduler& sim, GroupExecutor&, KeyLocks& locks) { sync_wait(sim, lock_once(locks)); });
}

// The permit of the task stays away while a branch blocks, though the wait of another branch has ended.
TEST(InlineRun, ABlockedBranchKeepsThePermitAway) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    const auto awaits = [&]() -> Task<void> {
      auto first = executor.submit("g", []() -> Task<void> { co_await sleep_for(10ms); });
      (void)co_await first;
    };
    const auto joins = [&]() -> Task<void> {
      EXPECT_TRUE(executor.submit("g", [] {}).join().ok());
      co_return;
    };
    const auto both = [&]() -> Task<void> { (void)co_await when_all(awaits(), joins()); };
    auto task = executor.submit("g", [&] { sync_wait(sim, both()); });
    EXPECT_TRUE(task.join().ok());
  });
}

}  // namespace
}  // namespace keyway
