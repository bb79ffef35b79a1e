// A wait for a lock costs the same however many others wait for it.
#include <ctime>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using testing::SimScheduler;

// Of this thread, on which the simulation runs: other processes do not count.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// For tasks that want to share a lock which another operation holds exclusively.
double seconds_per_wait(int count) {
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
  return took / count;
}

TEST(LockScale, SharedWaitersBehindAnExclusiveHolderDoNotSearchTheLine) {
  seconds_per_wait(500);  // warms up
  const double few = seconds_per_wait(500);
  EXPECT_LT(seconds_per_wait(20'000), 6 * few);
}

}  // namespace
}  // namespace keyway
