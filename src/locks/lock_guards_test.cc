// Guards: moved, released, and passed on to other threads.
#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/key_locks.h"

namespace keyway {
namespace {

TEST(KeyLocks, GuardsMoveAndAreReleasedOnce) {
  KeyLocks locks;
  KeyLocks::Guard a = locks.lock("a");
  KeyLocks::Guard moved = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: moved from on purpose
  EXPECT_EQ(moved.key(), "a");
  KeyLocks::Guard b = locks.lock("b", LockMode::kShared);
  EXPECT_EQ(b.mode(), LockMode::kShared);
  moved = std::move(b);  // releases "a"
  EXPECT_EQ(locks.active_lock_count(), 1U);
  moved.release();
  moved.release();
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

// A ring in which one thread passes guards on to another.
class Ring {
 public:
  void put(KeyLocks::Guard guard) {
    wait_until([&] { return put_ - taken_.load(std::memory_order_acquire) < slots_.size(); });
    slots_[put_ % slots_.size()] = std::move(guard);
    filled_.store(++put_, std::memory_order_release);
  }
  KeyLocks::Guard take() {
    const std::size_t next = taken_.load(std::memory_order_relaxed);
    wait_until([&] { return filled_.load(std::memory_order_acquire) > next; });
    KeyLocks::Guard guard = std::move(slots_[next % slots_.size()]);
    taken_.store(next + 1, std::memory_order_release);
    return guard;
  }

 private:
  template <class Condition>
  static void wait_until(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }

  std::array<KeyLocks::Guard, 8> slots_;
  std::size_t put_ = 0;
  std::atomic<std::size_t> filled_ = 0;
  std::atomic<std::size_t> taken_ = 0;
};

TEST(KeyLocks, GuardsAreReleasedOnAnotherThreadAMillionTimes) {
  constexpr std::size_t kGuards = 1'000'000;
  KeyLocks locks;
  const std::array<std::string, 8> keys{"a", "b", "c", "d",
                                        "e", "f", "g", "a key that is longer than most keys are"};
  std::array<std::size_t, 8> counters{};  // not atomic: the locks order the threads
  Ring ring;
  std::thread releaser([&] {
    for (std::size_t i = 0; i < kGuards; ++i) {
      KeyLocks::Guard guard = ring.take();
      ++counters[i % keys.size()];
    }
  });
  for (std::size_t i = 0; i < kGuards; ++i) {
    KeyLocks::Guard guard = locks.lock(keys[i % keys.size()]);
    ++counters[i % keys.size()];
    guard.disown();
    ring.put(std::move(guard));
  }
  releaser.join();
  for (const std::size_t counter : counters) EXPECT_EQ(counter, 2 * kGuards / keys.size());
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocks, AGuardThatIsPassedOnKeepsEvenItsFirstOwnerOut) {
  KeyLocks locks;
  KeyLocks::Guard guard = locks.lock("a");
  EXPECT_TRUE(locks.try_lock("a"));
  guard.disown();
  EXPECT_FALSE(locks.try_lock("a"));
  guard.release();
  EXPECT_TRUE(locks.try_lock("a"));
}

}  // namespace
}  // namespace keyway
