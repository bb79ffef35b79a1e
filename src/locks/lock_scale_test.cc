// A wait for a lock costs the same however many others wait for it.
#include <cstdint>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/scale.h"

namespace keyway {
namespace {

using testing::SimScheduler;

// For tasks that want to share a lock which another operation holds exclusively.
double seconds(int count) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, sim);
  KeyLocks::Guard guard = locks.lock("k");
  for (int i = 0; i < count; ++i) {
    const auto wait = [&]() -> Task<void> {
      const KeyLocks::Guard mine = co_await locks.lock_async("k", LockMode::kShared);
    };
    EXPECT_TRUE(executor.post("g", wait).ok());
  }
  const double began = cpu_seconds();
  sim.run_ready();
  const double took = cpu_seconds() - began;
  EXPECT_EQ(locks.explain("k").waiting, static_cast<std::uint64_t>(count));
  executor.shutdown();  // ends the waits
  sim.run_until_idle();
  guard.release();
  return took;
}

TEST(LockScale, SharedWaitersBehindAnExclusiveHolderDoNotSearchTheLine) {
  expect_cost_stays(seconds, 500, 20'000);
}

}  // namespace
}  // namespace keyway
