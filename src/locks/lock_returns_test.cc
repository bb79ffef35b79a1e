// Locks held by tasks that gave permits back and want them again: who waits for such a lock must leave them their way
// back. Each of these tests hung before.
#include <latch>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/rest.h"
#include "keyway/serial_dispatcher.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/foreign_coroutine.h"
#include "support/own_process.h"
#include "support/sim_threads.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

// True if the lock was taken; false if the wait for it was refused because it could never end.
bool takes(KeyLocks& locks, std::string_view key) {
  try {
    const KeyLocks::Guard guard = locks.lock(key);
    return true;
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), ErrorCode::kWaitCycle) << exception.what();
    return false;
  }
}

Task<void> takes_async(KeyLocks& locks, std::string_view key) {
  try {
    const KeyLocks::Guard guard = co_await locks.lock_async(key);
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), ErrorCode::kWaitCycle) << exception.what();
  }
}

// A task of group "g" holds "k" and waits, while a rival wants "k". In virtual time, so only the seed decides which of
// them comes first.
struct Contest {
  explicit Contest(GroupPolicy policy, std::uint64_t seed = 0)
      : sim(seed), executor(std::move(policy), sim) {}

  template <class Body>
  void run_holder(Body body) {
    auto holder = executor.submit("g", "holder", body);
    EXPECT_TRUE(holder.join().ok());
    executor.drain();
  }
  void post_rival(std::string_view group) {
    executor.post(group, "rival", [this] { rival_took = takes(locks, "k"); }).value();
  }

  testing::SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor;
  std::optional<bool> rival_took;
};

// ---- a permit of the own group

TEST(LockReturns, ATaskThatJoinedOneOfItsGroupComesBack) {
  expect_ends([] {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Contest contest({}, seed);
      contest.run_holder([&] {
        const KeyLocks::Guard guard = contest.locks.lock("k");
        auto x = contest.executor.submit("g", "X", [] {});
        contest.post_rival("g");
        EXPECT_TRUE(x.join().ok());
      });
    }
  });
}

TEST(LockReturns, ACoroutineThatAwaitedOneOfItsGroupComesBack) {
  expect_ends([] {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Contest contest({}, seed);
      contest.run_holder([&]() -> Task<void> {
        const KeyLocks::Guard guard = co_await contest.locks.lock_async("k");
        auto x = contest.executor.submit("g", "X", [] {});
        contest.executor.post("g", "rival", [&] { return takes_async(contest.locks, "k"); })
            .value();
        (void)co_await x;
      });
    }
  });
}

// The rival has the holder's permit when the time is over.
TEST(LockReturns, ATaskWhoseWaitTimedOutComesBack) {
  expect_ends([] {
    Contest contest({});
    contest.run_holder([&] {
      const KeyLocks::Guard guard = contest.locks.lock("k");
      contest.post_rival("g");
      auto x = contest.executor.submit("g", "X", []() -> Task<void> { co_await sleep_for(1h); });
      EXPECT_EQ(x.join_for(1ms).status, TaskStatus::kTimedOut);
    });
    EXPECT_EQ(contest.rival_took, false);
  });
}

TEST(LockReturns, ABranchComesBackWhileAnotherOneWaits) {
  expect_ends([] {
    KeyLocks locks;
    testing::SimScheduler sim;
    GroupExecutor executor({}, sim);
    bool y_took = false;
    const auto holds = [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      auto x = executor.submit("g", "X", []() -> Task<void> { co_await sleep_for(50ms); });
      (void)co_await x;
    };
    const auto waits = [&]() -> Task<void> {
      auto y = executor.submit("other", "Y", [&]() -> Task<void> {
        co_await sleep_for(150ms);
        y_took = takes(locks, "k");
      });
      (void)co_await y;
    };
    auto t1 =
        executor.submit("g", "T1", [&]() -> Task<void> { co_await when_all(holds(), waits()); });
    EXPECT_TRUE(t1.join().ok());
    EXPECT_TRUE(y_took);
  });
}

// ---- a permit of the global limit

TEST(LockReturns, AWaitForALockLeavesTheGlobalPermitToOthers) {
  expect_ends([] {
    Contest contest({.global_max_in_flight = 1});
    KeyLocks::Guard guard = contest.locks.lock("k");
    contest.post_rival("y");
    contest.sim.run_ready();
    EXPECT_TRUE(contest.executor.submit("x", [] {}).join().ok());
    guard.release();
    contest.executor.drain();
    EXPECT_EQ(contest.rival_took, true);
  });
}

TEST(LockReturns, ATaskThatJoinedUnderAGlobalLimitComesBack) {
  expect_ends([] {
    Contest contest({.global_max_in_flight = 1});
    contest.run_holder([&] {
      const KeyLocks::Guard guard = contest.locks.lock("k");
      auto x = contest.executor.submit("x", [] {});
      contest.post_rival("y");
      EXPECT_TRUE(x.join().ok());
    });
    EXPECT_EQ(contest.rival_took, true);
  });
}

TEST(LockReturns, ATaskThatRestedComesBack) {
  expect_ends([] {
    Contest contest({.global_max_in_flight = 1});
    contest.run_holder([&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await contest.locks.lock_async("k");
      contest.post_rival("y");
      co_await rest_for(20ms);
    });
    EXPECT_EQ(contest.rival_took, true);
  });
}

TEST(LockReturns, ACallOfADispatcherWithOneWorkerComesBack) {
  expect_ends([] {
    KeyLocks locks;
    SerialDispatcher dispatcher({.workers = 1});
    bool c_took = false;
    const auto done = dispatcher.run("a", [&] {
      const KeyLocks::Guard guard = locks.lock("k");
      dispatcher.post("c", [&] { c_took = takes(locks, "k"); }).value();
      EXPECT_EQ(dispatcher.run("b", [] { return 1; }).value(), 1);
    });
    EXPECT_TRUE(done.ok());
    dispatcher.shutdown(10s);
    EXPECT_TRUE(c_took);
  });
}

TEST(LockReturns, ALockThatWasAwaitedUnderAGlobalLimitHasItsPermitAgain) {
  testing::SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({.global_max_in_flight = 1}, sim);
  int running = 0;
  int most = 0;
  const auto count = [&]() -> Task<void> {
    const KeyLocks::Guard guard = co_await locks.lock_async("k");
    most = std::max(most, ++running);
    co_await sleep_for(1ms);
    --running;
  };
  const auto free = [&]() -> Task<void> {
    most = std::max(most, ++running);
    co_await sleep_for(1ms);
    --running;
  };
  for (int i = 0; i < 20; ++i) {
    executor.post("locked" + std::to_string(i), count).value();
    executor.post("free" + std::to_string(i), free).value();
  }
  executor.drain();
  EXPECT_EQ(most, 1);
}

// ---- coroutines of which no scheduler is known

ForeignCoroutine second(KeyLocks& locks, bool& took) {
  const KeyLocks::Guard guard = co_await locks.lock_async("m");
  took = true;
}

ForeignCoroutine first(KeyLocks& locks, bool& second_took, std::latch& over) {
  {
    KeyLocks::Guard m = co_await locks.lock_async("m");
    second(locks, second_took);  // stands in line for m
    const KeyLocks::Guard k = co_await locks.lock_async("k");
    m.release();
    m = locks.lock("m");  // needs its next owner to run
  }
  over.count_down();
}

TEST(LockReturns, AForeignCoroutineMayWaitForALockThatItHasReleased) {
  expect_ends([] {
    KeyLocks locks;
    bool second_took = false;
    std::latch over(1);
    KeyLocks::Guard k = locks.lock("k");
    first(locks, second_took, over);
    k.release();
    over.wait();
    EXPECT_TRUE(second_took);
  });
}

// ---- a thread to go on

// The holder is a coroutine that sleeps. To release the lock it needs the only thread, which the waiter would block.
TEST(LockReturns, AWaitForALockLeavesAThreadToItsHolder) {
  expect_ends([] {
    testing::SimScheduler sim;
    SimThreads one_thread(sim, 1);
    KeyLocks locks;
    GroupExecutor executor({}, one_thread);
    auto holder = executor.submit("holder", [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      co_await sleep_for(10ms);
    });
    sim.advance(5ms);
    auto waiter = executor.submit("waiter", [&]() -> std::optional<ErrorCode> {
      try {
        const KeyLocks::Guard guard = locks.lock("k");
      } catch (const Exception& exception) {
        return exception.code();
      }
      return std::nullopt;
    });
    EXPECT_EQ(waiter.join().value(), ErrorCode::kNoThread);
    EXPECT_TRUE(holder.join().ok());
  });
}

// A branch lowers the limit while the task has its permits back. When the branch no longer runs, the task leaves its lane again,
// and could not return: a task that waits for its lock would have the last permit.
void expect_return_after_limit(bool branch_sleeps) {
  expect_ends([&] {
    testing::SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({.groups = {{"g", {.max_concurrency = 3}}}}, sim);
    TaskHandle<void> awaited;
    KeyLocks::Guard guard;
    const auto awaits = [&]() -> Task<void> { (void)co_await awaited; };
    const auto lowers = [&]() -> Task<void> {
      guard = co_await locks.lock_async("k");
      co_await sleep_for(5ms);
      EXPECT_TRUE(executor.set_limit("g", 1).ok());
      if (branch_sleeps) co_await sleep_for(1ms);
    };
    auto leaves = executor.submit("g", [&]() -> Task<void> {
      co_await when_all(awaits(), lowers());
      guard.release();
    });
    auto holds = executor.submit("g", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      const KeyLocks::Guard mine = co_await locks.lock_async("k");
    });
    awaited = executor.submit("g", []() -> Task<void> { co_await sleep_for(20ms); });
    EXPECT_TRUE(leaves.join().ok());
    EXPECT_TRUE(holds.join().ok());
  });
}

TEST(LockReturns, ATaskWhoseBranchEndsAfterItLoweredTheLimit) { expect_return_after_limit(false); }
TEST(LockReturns, ATaskWhoseBranchSleepsAfterItLoweredTheLimit) { expect_return_after_limit(true); }

}  // namespace
}  // namespace keyway
