// A wait for a lock costs the same however many others wait for it.
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_lock.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"
#include "support/counted_checks.h"
#include "support/scale.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// Tasks that share a lock, and hold it until the executor is shut down.
struct Sharing {
  explicit Sharing(int count) : tasks(count) {}

  void post() {
    const auto share = [this]() -> Task<void> {
      const KeyLocks::Guard mine = co_await locks.lock_async("k", LockMode::kShared);
      co_await sleep_for(std::chrono::hours(1));
    };
    for (int i = 0; i < tasks; ++i) EXPECT_TRUE(executor.post("g", share).ok());
  }
  std::uint64_t waiting() const { return locks.explain("k").waiting; }
  double seconds_of(auto run) {
    const double began = cpu_seconds();
    run();
    sim.run_ready();
    return cpu_seconds() - began;
  }
  void end() {
    executor.shutdown();  // ends the waits and the sleeps
    sim.run_until_idle();
  }

  const int tasks;
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor{{.default_group = {.max_concurrency = kUnlimited}}, sim};
};

constexpr int kFew = 500;
constexpr int kMany = 20'000;

// All of them hold permits of one group, under a global limit.
TEST(LockScale, WaitersUnderAGlobalLimitDoNotSearchTheLine) {
  const auto seconds = [](int count) {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor(
        {.default_group = {.max_concurrency = kUnlimited}, .global_max_in_flight = 4}, sim);
    KeyLocks::Guard guard = locks.lock("k");
    const auto lock = [&]() -> Task<void> {
      const KeyLocks::Guard mine = co_await locks.lock_async("k");
    };
    for (int i = 0; i < count; ++i) EXPECT_TRUE(executor.post("g", lock).ok());
    const double began = cpu_seconds();
    sim.run_ready();
    const double took = cpu_seconds() - began;
    EXPECT_EQ(locks.explain("k").waiting, static_cast<std::size_t>(count));
    guard.release();
    sim.run_until_idle();
    return took;
  };
  expect_cost_stays(seconds, 200, 5'000);
}

TEST(LockScale, SharedWaitersBehindAnExclusiveHolderDoNotSearchTheLine) {
  const auto seconds = [](int count) {
    Sharing sharing(count);
    KeyLocks::Guard guard = sharing.locks.lock("k");
    sharing.post();
    const double took = sharing.seconds_of([] {});
    EXPECT_EQ(sharing.waiting(), static_cast<std::uint64_t>(count));
    guard.release();
    sharing.end();
    return took;
  };
  expect_cost_stays(seconds, kFew, kMany);
}

TEST(LockScale, AGrantToManySharedWaitersDoesNotLookAtAllOfThemForEach) {
  const auto seconds = [](int count) {
    Sharing sharing(count);
    KeyLocks::Guard guard = sharing.locks.lock("k");
    sharing.post();
    sharing.sim.run_ready();
    const double took = sharing.seconds_of([&] { guard.release(); });
    EXPECT_EQ(sharing.waiting(), 0U);
    EXPECT_EQ(sharing.locks.holders("k").size(), static_cast<std::size_t>(count));
    sharing.end();
    return took;
  };
  expect_cost_stays(seconds, kFew, kMany);
}

TEST(LockScale, ASharedWaiterBehindAnExclusiveOneDoesNotLookAtAllHolders) {
  const auto seconds = [](int count) {
    Sharing sharing(count);
    sharing.post();
    sharing.sim.run_ready();
    EXPECT_EQ(sharing.locks.holders("k").size(), static_cast<std::size_t>(count));
    const auto want = [&]() -> Task<void> { (void)co_await sharing.locks.lock_async("k"); };
    EXPECT_TRUE(sharing.executor.post("g", want).ok());
    sharing.post();
    const double took = sharing.seconds_of([] {});
    EXPECT_EQ(sharing.waiting(), static_cast<std::uint64_t>(count) + 1);
    sharing.end();
    return took;
  };
  expect_cost_stays(seconds, kFew, kMany);
}

// Tasks that hold a lock of their own while they wait for the lock "k". Each own lock has `waiters` waiters before.
double seconds_of_holders(int count, int waiters) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, sim);
  KeyLocks::Guard guard = locks.lock("k");
  const auto hold = [&](std::string own) -> Task<void> {
    const KeyLocks::Guard mine = co_await locks.lock_async(own);
    co_await sleep_for(std::chrono::seconds(1));
    const KeyLocks::Guard wanted = co_await locks.lock_async("k");
  };
  const auto want = [&](std::string own) -> Task<void> {
    const KeyLocks::Guard wanted = co_await locks.lock_async(own);
  };
  for (int i = 0; i < count; ++i) {
    const std::string own = "own " + std::to_string(i);
    EXPECT_TRUE(executor.post("g", [&hold, own] { return hold(own); }).ok());
    sim.run_ready();
    for (int waiter = 0; waiter < waiters; ++waiter) {
      EXPECT_TRUE(executor.post("g", [&want, own] { return want(own); }).ok());
    }
    sim.run_ready();
  }
  const double began = cpu_seconds();
  sim.advance(std::chrono::seconds(1));
  const double took = cpu_seconds() - began;
  EXPECT_EQ(locks.explain("k").waiting, static_cast<std::size_t>(count));
  guard.release();
  sim.run_until_idle();
  return took;
}

TEST(LockScale, WaitersThatHoldAnotherLockDoNotSearchTheLine) {
  const auto seconds = [](int count) { return seconds_of_holders(count, /*waiters=*/0); };
  expect_cost_stays(seconds, kFew, kMany);
}

TEST(LockScale, WaitersForWhoseLocksOthersWaitDoNotSearchTheLine) {
  const auto seconds = [](int count) { return seconds_of_holders(count, /*waiters=*/2); };
  expect_cost_stays(seconds, kFew, kMany);
}

// Another branch of when_any() sleeps.
TEST(LockScale, WaitersInBranchesOfARaceDoNotLookAtEachOther) {
  const auto seconds = [](int count) {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    KeyLocks::Guard guard = locks.lock("k");
    const auto lock = [&]() -> Task<void> { (void)co_await locks.lock_async("k"); };
    const auto sleep = []() -> Task<void> { co_await sleep_for(std::chrono::hours(1)); };
    const auto race = [&]() -> Task<void> {
      std::vector<Task<void>> branches;
      for (int i = 0; i < count; ++i) branches.push_back(lock());
      branches.push_back(sleep());
      (void)co_await when_any(std::move(branches));
    };
    auto raced = executor.submit("g", race);
    const double began = cpu_seconds();
    sim.run_ready();
    const double took = cpu_seconds() - began;
    EXPECT_EQ(locks.explain("k").waiting, static_cast<std::size_t>(count));
    guard.release();
    EXPECT_TRUE(raced.join().ok());
    return took;
  };
  expect_cost_stays(seconds, 200, 5'000);
}

// Tasks that give away the guards that parts of them took.
TEST(LockScale, ATaskThatEndsWithLocksDoesNotLookAtThoseOfOthers) {
  const auto seconds = [](int count) {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, sim);
    const auto take = [&](std::string key) -> Task<KeyLocks::Guard> {
      auto lock = locks.lock_async(key);
      co_return co_await with_timeout(std::chrono::hours(1), lock);
    };
    std::vector<TaskHandle<KeyLocks::Guard>> taken;
    for (int i = 0; i < count; ++i) {
      taken.push_back(executor.submit("g", [&take, i] { return take("k" + std::to_string(i)); }));
    }
    const double began = cpu_seconds();
    sim.run_ready();
    const double took = cpu_seconds() - began;
    EXPECT_EQ(locks.active_lock_count(), static_cast<std::size_t>(count));
    return took;
  };
  expect_cost_stays(seconds, kFew, 2 * kMany);
}

// A task waits for one of them, which may need a permit of the group that the others hold.
TEST(LockScale, WaitersInAGroupWhoseTaskIsWaitedForDoNotSearchTheLine) {
  const auto seconds = [](int count) {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, sim);
    KeyLocks::Guard guard = locks.lock("k");
    const auto lock = [&]() -> Task<void> {
      const KeyLocks::Guard mine = co_await locks.lock_async("k");
    };
    auto first = executor.submit("g", lock);
    EXPECT_TRUE(executor.post("h", [&]() -> Task<void> { (void)co_await first; }).ok());
    sim.run_ready();
    for (int i = 0; i < count; ++i) EXPECT_TRUE(executor.post("g", lock).ok());
    const double began = cpu_seconds();
    sim.run_ready();
    const double took = cpu_seconds() - began;
    EXPECT_EQ(locks.explain("k").waiting, static_cast<std::size_t>(count) + 1);
    guard.release();
    sim.run_until_idle();
    return took;
  };
  expect_cost_stays(seconds, kFew, kMany);
}

// Each task of a chain begins to wait when those before it wait. Before that it does what `before` says.
void expect_chain_not_searched(const GroupPolicy& policy,
                               const std::function<Task<void>(KeyLocks&, int)>& before) {
  expect_checks_stay([&](int count) {
    SimScheduler sim;
    CountedChecks checks(sim);
    KeyLocks locks;
    GroupExecutor executor(policy, checks);
    std::vector<TaskHandle<void>> chain(static_cast<std::size_t>(count));
    chain[0] = executor.submit("g", []() -> Task<void> { co_await sleep_for(1h); });
    for (int i = 1; i < count; ++i) {
      chain[i] = executor.submit("g", [&, i]() -> Task<void> {
        co_await before(locks, i);
        (void)co_await chain[i - 1];
      });
      sim.run_ready();
    }
    EXPECT_TRUE(chain.back().join().ok());
    return checks.count();
  });
}

TEST(LockScale, WaitersWhoseBranchesHadLocksDoNotSearchTheChain) {
  const auto lock = [](KeyLocks& locks, std::string key) -> Task<void> {
    (void)co_await locks.lock_async(key);
  };
  const auto lock_in_branches = [&](KeyLocks& locks, int i) -> Task<void> {
    (void)co_await when_all(lock(locks, "a" + std::to_string(i)),
                            lock(locks, "b" + std::to_string(i)));
  };
  for (const int in_flight : {kUnlimited, 1'000'000}) {
    SCOPED_TRACE(in_flight);
    expect_chain_not_searched(
        {.default_group = {.max_concurrency = kUnlimited}, .global_max_in_flight = in_flight},
        lock_in_branches);
  }
}

// By KeyLock, as the standard library releases a shared mutex.
TEST(LockScale, SharersThatUnlockDoNotSearchTheOthers) {
  const auto seconds = [](int count) {
    SimScheduler sim;
    KeyLocks locks;
    KeyLock lock(locks, "k");
    GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, sim);
    const auto share = [&]() -> Task<void> {
      lock.lock_shared();
      co_await sleep_for(1s);
      lock.unlock_shared();
    };
    for (int i = 0; i < count; ++i) EXPECT_TRUE(executor.post("g", share).ok());
    sim.run_ready();
    const double began = cpu_seconds();
    sim.advance(1s);
    const double took = cpu_seconds() - began;
    EXPECT_EQ(locks.active_lock_count(), 0U);
    return took;
  };
  expect_cost_stays(seconds, kFew, kMany);
}

}  // namespace
}  // namespace keyway
