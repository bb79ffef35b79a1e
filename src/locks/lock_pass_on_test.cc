// Locks that pass from a part of an operation to the operation, and close a cycle of waits: a wait for one of them is refused.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"
#include "support/coroutines.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// "stranger" wants to write, and "reads" stands behind it. When the shared lock passes to the task that awaits "stranger",
// that wait is refused, and nothing keeps "reads" out any more.
TEST(LockParts, ARefusedWaitLetsThoseBehindItGoOn) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    const TimePoint begin = sim.now();
    KeyLocks::Guard kept;
    bool refused = false;
    TaskHandle<void> stranger;
    auto task = executor.submit("t", [&]() -> Task<void> {
      const auto keeps = [&]() -> Task<void> {
        kept = co_await locks.lock_async("k", LockMode::kShared);
        co_await sleep_for(10ms);
      };
      const auto waits = [&]() -> Task<void> {
        co_await sleep_for(5ms);
        (void)co_await stranger;
      };
      (void)co_await when_all(keeps(), waits());
      co_await sleep_for(1s);
      kept = {};
    });
    stranger = executor.submit("s", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      try {
        const KeyLocks::Guard guard = co_await locks.lock_async("k");
      } catch (const Exception&) {
        refused = true;
      }
    });
    auto reads = executor.submit("r", [&]() -> Task<Duration> {
      co_await sleep_for(2ms);
      const KeyLocks::Guard guard = co_await locks.lock_async("k", LockMode::kShared);
      co_return sim.now() - begin;
    });
    EXPECT_EQ(reads.join().value(), 10ms);
    EXPECT_TRUE(refused);
    EXPECT_TRUE(task.join().ok());
  });
}

// Each of two strangers waits for the lock, and each is awaited by a branch of the operation that gets it.
TEST(LockParts, ALockThatPassesOnMayCloseTwoCycles) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    int refused = 0;
    std::vector<TaskHandle<void>> strangers(2);
    KeyLocks::Guard kept;
    auto task = executor.submit("t", [&]() -> Task<void> {
      const auto keeps = [&]() -> Task<void> {
        kept = co_await locks.lock_async("k");
        co_await sleep_for(10ms);
      };
      const auto waits = [&](TaskHandle<void>& stranger) -> Task<void> {
        co_await sleep_for(5ms);
        (void)co_await stranger;
      };
      (void)co_await when_all(keeps(), waits(strangers[0]), waits(strangers[1]));
      kept = {};
    });
    for (int i = 0; i < 2; ++i) {
      strangers[i] = executor.submit("s" + std::to_string(i), [&]() -> Task<void> {
        co_await sleep_for(1ms);
        try {
          const KeyLocks::Guard guard = co_await locks.lock_async("k");
        } catch (const Exception&) {
          ++refused;
        }
      });
    }
    EXPECT_TRUE(task.join().ok());
    EXPECT_EQ(refused, 2);
  });
}

// The first wait that keeps the costly task out is not for the lock. The second is.
TEST(LockParts, ALockThatPassesOnMayCloseTheSecondOfTwoCycles) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({.groups = {{"g", {.max_concurrency = 3}}}}, sim);
    KeyLocks::Guard guard = locks.lock("k");
    TaskHandle<void> awaits_last;
    auto fills = executor.submit("g", []() -> Task<void> { co_await sleep_for(4ms); });
    auto first = executor.submit("g", [&]() -> Task<void> {
      co_await sleep_for(2ms);
      (void)co_await awaits_last;
    });
    auto second = executor.submit("g", [&]() -> Task<void> {
      co_await sleep_for(3ms);
      const KeyLocks::Guard again = co_await locks.lock_async("k");
    });
    sim.run_ready();
    auto costly = executor.submit("g", {.id = "costly", .cost = 2}, [] {});
    auto last = executor.submit("g", "last", [] {});
    auto whole = executor.submit("b", [&]() -> Task<void> {
      auto lock = locks.lock_async("k");
      (void)co_await when_all(costly, lock);
    });
    awaits_last = executor.submit("c", [&]() -> Task<void> { (void)co_await last; });
    sim.advance(5ms);
    guard.release();  // a branch of `whole` gets the lock, and ends
    EXPECT_TRUE(whole.join().ok());
    EXPECT_TRUE(first.join().ok());
    EXPECT_THROW((void)second.join().value(), Exception);
  });
}

}  // namespace
}  // namespace keyway
