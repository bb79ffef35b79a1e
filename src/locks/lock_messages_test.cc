// What an executor says of tasks that wait for a lock.
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(LockMessages, TheExplanationOfAGroupNamesTheLockThatItsTaskWaitsFor) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  KeyLocks::Guard guard = locks.lock("k");
  auto waits = executor.submit("g", "1", [&]() -> Task<void> {
    const KeyLocks::Guard mine = co_await locks.lock_async("k");
  });
  auto behind = executor.submit("g", "2", [] {});
  sim.advance(1s);
  const Explanation why = executor.explain("g");
  ASSERT_EQ(why.holders.size(), 1U);
  EXPECT_EQ(why.holders[0].waits_for, "key \"k\"");
  EXPECT_EQ(why.text(),
            "1 of 1 running; oldest 1.0 s (1, which waits for key \"k\"); 1 waiting; goes on when "
            "one of the group ends, or with set_limit()");
  EXPECT_EQ(executor.explain(waits).waits_for, why.holders[0].waits_for);
  guard.release();
  sim.run_until_idle();
}

// A task that blocks in lock() is not woken by a stop request.
TEST(LockMessagesDeathTest, AnExecutorThatIsDestroyedUnderALockNamesTheTaskThatWaitsForIt) {
  const auto destroy_under_lock = [] {
    SimScheduler sim;
    KeyLocks locks;
    auto executor = std::make_unique<GroupExecutor>(GroupPolicy{}, sim);
    const KeyLocks::Guard guard = locks.lock("k");
    auto waits = executor->submit("g", "t", [&] { const KeyLocks::Guard mine = locks.lock("k"); });
    sim.run_ready();
    executor.reset();
  };
  EXPECT_DEATH(destroy_under_lock(),
               "executor is destroyed where .* task \"t\" of group \"g\" waits for key \"k\"");
}

TEST(LockMessagesDeathTest, ADestroyedKeyLocksNamesAKeyOfItsBucketsItsHolderAndItsWaiters) {
  const auto destroy = [] {
    SimScheduler sim;
    auto locks = std::make_unique<KeyLocks>();
    GroupExecutor executor({}, sim);
    const std::string key(100, 'k');  // too long for the first place of a shard
    const KeyLocks::Guard guard = locks->lock(key);
    auto waits = executor.submit("g", "t", [&]() -> Task<void> {
      const KeyLocks::Guard mine = co_await locks->lock_async(key);
    });
    sim.run_ready();
    locks.reset();
  };
  EXPECT_DEATH(destroy(), "waited for: key \"k+\": held by thread [0-9]+; 1 waiting");
}

}  // namespace
}  // namespace keyway
