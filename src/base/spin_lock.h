// A lock for critical sections of a few dozen instructions: four bytes, 7 ns when uncontended.
// Use Mutex when the section may allocate, wait or call anything that is not known to be short.
//
// A waiter spins briefly, then yields its time slice, so that a holder which was preempted gets
// to run again even when all threads share one core.
//
// Its rank says in which order it is taken with others: see lock_ranks.h.
//
// Thread safety: that is its job. Not re-entrant.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/lock_order.h"
#include "base/lock_ranks.h"
#include "base/thread_annotations.h"

#if defined(KEYWAY_EXPLORE)
#include "base/explored_locks.h"
#endif

namespace keyway {

#if defined(KEYWAY_EXPLORE)

inline void cpu_relax() { explore::spin(); }
inline void yield_thread() { explore::spin(); }
// One look is enough: each lets all other threads run.
constexpr int spins_before_sleep(int) { return 1; }
using RawSpinLock = explore::ExploredLock;

#else

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
// For a loop that waits for another thread, which may want this core.
inline void yield_thread() { std::this_thread::yield(); }
// How often a loop looks before its thread goes to sleep.
constexpr int spins_before_sleep(int count) { return count; }

class RawSpinLock {
 public:
  void lock(LockRank) {
    // acquire: pairs with the release in unlock().
    while (held_.exchange(1, std::memory_order_acquire) != 0) wait_until_free();
  }
  bool try_lock(LockRank) { return held_.exchange(1, std::memory_order_acquire) == 0; }
  void unlock() { held_.store(0, std::memory_order_release); }

 private:
  void wait_until_free() {
    for (int spins = 0; held_.load(std::memory_order_relaxed) != 0; ++spins) {
      if (spins < kSpinsBeforeYield) {
        cpu_relax();
      } else {
        yield_thread();
      }
    }
  }

  static constexpr int kSpinsBeforeYield = 256;

  std::atomic<std::uint32_t> held_{0};
};

#endif

template <LockRank Rank = LockRank::kLeaf>
class KEYWAY_CAPABILITY("spin lock") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() KEYWAY_ACQUIRE() {
    lock_order::before_lock(Rank);
    raw_.lock(Rank);
    lock_order::locked(Rank);
  }
  bool try_lock() KEYWAY_TRY_ACQUIRE(true) {
    const bool taken = raw_.try_lock(Rank);
    if (taken) lock_order::locked(Rank);
    return taken;
  }
  void unlock() KEYWAY_RELEASE() {
    lock_order::unlocked(Rank);
    raw_.unlock();
  }

 private:
  RawSpinLock raw_;
};

template <LockRank Rank>
class KEYWAY_SCOPED_CAPABILITY SpinGuard {
 public:
  explicit SpinGuard(SpinLock<Rank>& lock) KEYWAY_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() KEYWAY_RELEASE() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock<Rank>& lock_;
};

}  // namespace keyway
