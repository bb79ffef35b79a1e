// One key as a mutex of the standard library's kind.
#include "keyway/key_lock.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "support/jobs.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

TEST(KeyLock, IsAMutexOfTheStandardKind) {
  KeyLocks locks;
  KeyLock a(locks, "a");
  KeyLock b(locks, "b");
  {
    const std::scoped_lock both(a, b);
    EXPECT_EQ(locks.active_lock_count(), 2U);
  }
  {
    std::unique_lock held(a, 1s);
    EXPECT_TRUE(held.owns_lock());
    std::thread([&] {
      EXPECT_FALSE(a.try_lock());
      EXPECT_FALSE(a.try_lock_for(1ms));
      EXPECT_FALSE(a.try_lock_until(std::chrono::system_clock::now() + 1ms));
      EXPECT_FALSE(a.try_lock_shared());
    }).join();
  }
  {
    const std::shared_lock reads(a);
    std::thread([&] {
      EXPECT_TRUE(a.try_lock_shared_for(1s));
      EXPECT_TRUE(a.try_lock_shared_until(std::chrono::steady_clock::now() + 1s));
      a.unlock_shared();
      a.unlock_shared();
      EXPECT_FALSE(a.try_lock());
    }).join();
  }
  std::lock(a, b);
  a.unlock();
  b.unlock();
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

// Whether a thread gets the lock by `try_it` once it waits in line, and the holder lets go.
template <class Try>
bool waits_for_its_turn(Try try_it) {
  KeyLocks locks;
  KeyLock lock(locks, "a");
  KeyLocks::Guard held = locks.lock("a");
  std::atomic<bool> over = false;
  bool got = false;
  std::thread waiter([&] {
    got = try_it(lock);
    if (got) lock.unlock();
    over = true;
  });
  EXPECT_TRUE(eventually([&] { return over || locks.explain("a").waiting == 1; }));
  held.release();
  waiter.join();
  return got;
}

TEST(KeyLock, ATimeoutThatIsTooLongToCountIsNoTimeout) {
  using std::chrono::hours;
  using Deadline = std::chrono::steady_clock::time_point;
  using InHours = std::chrono::time_point<std::chrono::system_clock, hours>;
  EXPECT_TRUE(waits_for_its_turn([](KeyLock& a) { return a.try_lock_for(hours::max()); }));
  EXPECT_TRUE(
      waits_for_its_turn([](KeyLock& a) { return a.try_lock_for(std::chrono::years(1000)); }));
  EXPECT_TRUE(waits_for_its_turn(
      [](KeyLock& a) { return a.try_lock_for(std::chrono::duration<double>(1e300)); }));
  EXPECT_TRUE(waits_for_its_turn([](KeyLock& a) { return a.try_lock_until(Deadline::max()); }));
  EXPECT_TRUE(waits_for_its_turn([](KeyLock& a) { return a.try_lock_until(InHours::max()); }));
}

TEST(KeyLock, ADeadlineInThePastIsNotWaitedFor) {
  using std::chrono::hours;
  using Deadline = std::chrono::steady_clock::time_point;
  using InHours = std::chrono::time_point<std::chrono::system_clock, hours>;
  EXPECT_FALSE(waits_for_its_turn([](KeyLock& a) { return a.try_lock_until(Deadline::min()); }));
  EXPECT_FALSE(waits_for_its_turn([](KeyLock& a) { return a.try_lock_until(InHours::min()); }));
  EXPECT_FALSE(waits_for_its_turn([](KeyLock& a) { return a.try_lock_for(hours::min()); }));
  EXPECT_FALSE(waits_for_its_turn(
      [](KeyLock& a) { return a.try_lock_until(std::chrono::system_clock::now() - 1h); }));
}

TEST(KeyLock, MayBeUnlockedOnAnotherThread) {
  KeyLocks locks;
  KeyLock lock(locks, "a");
  std::unique_lock held(lock);
  std::thread([moved = std::move(held)]() mutable { moved.unlock(); }).join();
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLockDeathTest, CannotBeUnlockedIfItIsNotHeld) {
  KeyLocks locks;
  EXPECT_DEATH(KeyLock(locks, "a").unlock(), "not held");
}

TEST(KeyLock, RefusesAnEmptyKey) {
  KeyLocks locks;
  EXPECT_THROW(KeyLock(locks, ""), Exception);
}

}  // namespace
}  // namespace keyway
