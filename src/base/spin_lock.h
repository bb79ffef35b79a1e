// A lock for critical sections of a few dozen instructions: four bytes, 7 ns when uncontended.
// Use Mutex when the section may allocate, wait or call anything that is not known to be short.
//
// A waiter spins briefly, then yields its time slice, so that a holder which was preempted gets
// to run again even when all threads share one core.
//
// Thread safety: that is its job. Not re-entrant.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/thread_annotations.h"

namespace keyway {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class KEYWAY_CAPABILITY("spin lock") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() KEYWAY_ACQUIRE() {
    // acquire: pairs with the release in unlock().
    while (held_.exchange(1, std::memory_order_acquire) != 0) wait_until_free();
  }
  bool try_lock() KEYWAY_TRY_ACQUIRE(true) {
    return held_.exchange(1, std::memory_order_acquire) == 0;
  }
  void unlock() KEYWAY_RELEASE() { held_.store(0, std::memory_order_release); }

 private:
  void wait_until_free() {
    for (int spins = 0; held_.load(std::memory_order_relaxed) != 0; ++spins) {
      if (spins < kSpinsBeforeYield) {
        cpu_relax();
      } else {
        std::this_thread::yield();
      }
    }
  }

  static constexpr int kSpinsBeforeYield = 256;

  std::atomic<std::uint32_t> held_{0};
};

class KEYWAY_SCOPED_CAPABILITY SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) KEYWAY_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() KEYWAY_RELEASE() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace keyway
