// Coroutines of another library that wait for a lock: they are not a part of what the releasing thread does.
#include <future>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/detail/operation.h"
#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/serial_dispatcher.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/foreign_coroutine.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

ForeignCoroutine try_after(KeyLocks& locks, std::promise<bool> got_it) {
  bool got = false;
  {
    const KeyLocks::Guard a = co_await locks.lock_async("a");
    got = static_cast<bool>(locks.try_lock("x"));
  }
  got_it.set_value(got);
}

TEST(ForeignCoroutine, DoesNotEnterTheLocksOfTheReleaser) {
  KeyLocks locks;
  std::promise<bool> promise;
  std::future<bool> got_x = promise.get_future();
  KeyLocks::Guard a = locks.lock("a");
  try_after(locks, std::move(promise));
  const KeyLocks::Guard x = locks.lock("x");
  a.release();
  EXPECT_FALSE(got_x.get());
}

ForeignCoroutine run_after(KeyLocks& locks, SerialDispatcher& dispatcher, const bool& inside,
                           std::promise<bool> beside) {
  bool beside_other_work = false;
  {
    const KeyLocks::Guard a = co_await locks.lock_async("a");
    EXPECT_TRUE(dispatcher.run("k", [&] { beside_other_work = inside; }).ok());
  }
  beside.set_value(beside_other_work);
}

TEST(ForeignCoroutine, IsNotInsideTheLaneOfTheReleaser) {
  KeyLocks locks;
  SerialDispatcher dispatcher({.workers = 2});
  std::promise<bool> promise;
  std::future<bool> beside = promise.get_future();
  bool inside = false;
  const Result<void> ran = dispatcher.run("k", [&] {
    KeyLocks::Guard a = locks.lock("a");
    std::jthread(
        [&] { run_after(locks, dispatcher, inside, std::move(promise)); });  // stands in line
    inside = true;
    a.release();
    inside = false;
  });
  EXPECT_TRUE(ran.ok());
  EXPECT_FALSE(beside.get());
}

ForeignCoroutine take_and_wait(KeyLocks& locks, std::promise<void> over) {
  {
    const KeyLocks::Guard b = co_await locks.lock_async("b");
    const KeyLocks::Guard x = locks.lock("x");
    const KeyLocks::Guard c = co_await locks.lock_async("c");
  }
  over.set_value();
}

// Both may go on on the same thread of the background pool.
TEST(ForeignCoroutine, DoesNotEnterTheLocksOfAnother) {
  KeyLocks locks;
  std::promise<void> first;
  std::future<void> over = first.get_future();
  std::promise<bool> second;
  std::future<bool> got_x = second.get_future();
  KeyLocks::Guard a = locks.lock("a");
  KeyLocks::Guard b = locks.lock("b");
  KeyLocks::Guard c = locks.lock("c");
  take_and_wait(locks, std::move(first));
  try_after(locks, std::move(second));
  b.release();
  while (locks.explain("c").waiting < 1) std::this_thread::yield();
  a.release();
  EXPECT_FALSE(got_x.get());
  c.release();
  over.wait();
}

// Waits by a means that Keyway does not know for the next owner of a lock that it has released.
TEST(ForeignCoroutine, MayWaitForTheNextOwnerOfItsLock) {
  expect_ends([] {
    KeyLocks locks;
    KeyLocks::Guard a = locks.lock("a");
    KeyLocks::Guard b = locks.lock("b");
    std::promise<void> has_b;
    std::latch over(2);
    const auto first = [](KeyLocks& all, KeyLocks::Guard& to_release, std::promise<void>& next,
                          std::latch& ended) -> ForeignCoroutine {
      {
        const KeyLocks::Guard guard = co_await all.lock_async("a");
        to_release.release();
        next.get_future().wait();
      }
      ended.count_down();
    };
    const auto second = [](KeyLocks& all, std::promise<void>& got,
                           std::latch& ended) -> ForeignCoroutine {
      {
        const KeyLocks::Guard guard = co_await all.lock_async("b");
        got.set_value();
      }
      ended.count_down();
    };
    second(locks, has_b, over);
    first(locks, b, has_b, over);
    a.release();
    over.wait();
  });
}

OwnedCoroutine take(KeyLocks& locks) {
  const KeyLocks::Guard guard = co_await locks.lock_async("k");
}

TEST(ForeignCoroutine, LeavesTheLineWhenItIsDestroyed) {
  KeyLocks locks;
  {
    const KeyLocks::Guard guard = locks.lock("k");
    {
      const OwnedCoroutine waits = take(locks);
      EXPECT_EQ(locks.explain("k").waiting, 1U);
    }
    EXPECT_EQ(locks.explain("k").waiting, 0U);
  }
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(ForeignCoroutine, IsNotDestroyedWhenItHasGotTheLock) {
  SimScheduler sim;
  const auto destroy = [&] {
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    auto task = executor.submit("g", [&] {
      KeyLocks::Guard guard = locks.lock("k");
      const OwnedCoroutine waits = take(locks);
      guard.release();  // the coroutine is posted
    });
    (void)task.join();
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(destroy(), "about to go on");
}

ForeignCoroutine note(KeyLocks& locks, LockMode mode, std::vector<std::string>& events) {
  const KeyLocks::Guard guard = co_await locks.lock_async("k", mode);
  EXPECT_EQ(detail::Operation::current().task(), nullptr);
  events.emplace_back("the coroutine goes on");
}

TEST(ForeignCoroutine, GoesOnWhenTheReleaseHasReturned) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  std::vector<std::string> events;
  auto task = executor.submit("g", [&] {
    KeyLocks::Guard guard = locks.lock("k");
    note(locks, LockMode::kExclusive, events);
    guard.release();
    events.emplace_back("the release returns");
  });
  EXPECT_TRUE(task.join().ok());
  sim.run_ready();
  EXPECT_EQ(events, (std::vector<std::string>{"the release returns", "the coroutine goes on"}));
}

// The task has no permits until try_lock_for() returns.
TEST(ForeignCoroutine, GoesOnWhenTheWaitAheadOfItHasTimedOut) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  std::vector<std::string> events;
  const KeyLocks::Guard reader = locks.lock("k", LockMode::kShared);
  auto task = executor.submit("g", [&] {
    EXPECT_FALSE(locks.try_lock_for("k", 100ms));
    events.emplace_back("the wait returns");
  });
  sim.advance(50ms);
  note(locks, LockMode::kShared, events);
  EXPECT_TRUE(task.join().ok());
  sim.run_ready();
  EXPECT_EQ(events, (std::vector<std::string>{"the wait returns", "the coroutine goes on"}));
}

}  // namespace
}  // namespace keyway
