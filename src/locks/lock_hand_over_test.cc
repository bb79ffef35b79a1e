// What happens around the moment in which a lock goes from one holder to the next: who is woken first, and who may wait.
#include <latch>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "keyway/when_any.h"
#include "support/foreign_coroutine.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// The wait of `first` was accepted because `second` could still end, which would have stopped `first`.
TEST(LockHandOver, ARivalThatOthersCountOnCannotWaitForEver) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    bool refused = false;
    const auto wants = [&](Duration after) -> Task<void> {
      co_await sleep_for(after);
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
    };
    const auto first = [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      auto other = executor.submit("q", [&] { return wants(5ms); });
      (void)co_await other;
    };
    const auto second = [&]() -> Task<void> {
      try {
        co_await wants(30ms);
      } catch (const Exception& error) {
        refused = error.code() == ErrorCode::kWaitCycle;
      }
    };
    auto task =
        executor.submit("p", [&]() -> Task<void> { (void)co_await when_any(first(), second()); });
    EXPECT_NE(task.join().status, TaskStatus::kTimedOut);
    EXPECT_TRUE(refused);
  });
}

// The pool's only thread would wait for a coroutine that needs it to go on.
TEST(LockHandOver, ALockOfACoroutineOutsideOfTasksNeedsAThread) {
  expect_ends([] {
    KeyLocks locks;
    ThreadPool pool({.threads = 1, .max_threads = 1});
    GroupExecutor executor({}, pool);
    TaskHandle<ErrorCode> task;
    sync_wait(pool, [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      task = executor.submit("g", [&] {
        try {
          (void)locks.lock("k");
        } catch (const Exception& error) {
          return error.code();
        }
        return ErrorCode{};
      });
      co_await sleep_for(20ms);
    }());
    EXPECT_EQ(task.join().value(), ErrorCode::kNoThread);
  });
}

// A foreign coroutine and a task get a shared lock at the same time.
ForeignCoroutine lock_shared_and_join(KeyLocks& locks, TaskHandle<void>& task, std::latch& joined) {
  {
    const KeyLocks::Guard guard = co_await locks.lock_async("k", LockMode::kShared);
    (void)task.join();
  }
  joined.count_down();
}

TEST(LockHandOver, AForeignCoroutineMayWaitForATaskThatIsGrantedTheLockWithIt) {
  expect_ends([] {
    KeyLocks locks;
    GroupExecutor executor({});
    KeyLocks::Guard held = locks.lock("k");
    TaskHandle<void> task;
    std::latch joined(1);
    lock_shared_and_join(locks, task, joined);
    task = executor.submit("g", [&] { (void)locks.lock("k", LockMode::kShared); });
    while (locks.explain("k").waiting < 2) std::this_thread::yield();
    held.release();
    joined.wait();
  });
}

TEST(LockHandOver, AForeignCoroutineMayWaitForATaskWhoseStopGaveItTheLock) {
  expect_ends([] {
    KeyLocks locks;
    GroupExecutor executor({});
    const KeyLocks::Guard held = locks.lock("k", LockMode::kShared);
    std::latch joined(1);
    TaskHandle<void> task = executor.submit(
        "g", [&]() -> Task<void> { const auto guard = co_await locks.lock_async("k"); });
    while (locks.explain("k").waiting < 1) std::this_thread::yield();
    lock_shared_and_join(locks, task, joined);
    executor.shutdown_group("g");
    joined.wait();
  });
}

}  // namespace
}  // namespace keyway
