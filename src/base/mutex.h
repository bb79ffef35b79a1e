// std::mutex and std::condition_variable with the annotations that clang's analysis needs, and with a
// rank that says in which order a mutex is taken with others: see lock_ranks.h.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/lock_order.h"
#include "base/lock_ranks.h"
#include "base/thread_annotations.h"

#if defined(KEYWAY_EXPLORE)
#include "base/explored_locks.h"
#endif

namespace keyway {

#if defined(KEYWAY_EXPLORE)

using RawMutex = explore::ExploredLock;
using RawCondition = explore::ExploredCondition;

#else

class RawMutex {
 public:
  void lock(LockRank) { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};
using RawCondition = std::condition_variable_any;

#endif

template <LockRank Rank = LockRank::kLeaf>
class KEYWAY_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() KEYWAY_ACQUIRE() {
    lock_order::before_lock(Rank);
    raw_.lock(Rank);
    lock_order::locked(Rank);
  }
  void unlock() KEYWAY_RELEASE() {
    lock_order::unlocked(Rank);
    raw_.unlock();
  }

 private:
  RawMutex raw_;
};

template <LockRank Rank>
class KEYWAY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex<Rank>& mutex) KEYWAY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() KEYWAY_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex<Rank>& mutex_;
};

// Wakes may be spurious: wait in a loop that checks the condition under the mutex. The waiting thread
// holds no other lock.
class CondVar {
 public:
  template <LockRank Rank>
  void wait(Mutex<Rank>& mutex) KEYWAY_REQUIRES(mutex) {
    lock_order::before_wait(Rank);
    condition_.wait(mutex);
  }
  template <LockRank Rank>
  void wait_until(Mutex<Rank>& mutex, std::chrono::steady_clock::time_point deadline)
      KEYWAY_REQUIRES(mutex) {
    lock_order::before_wait(Rank);
    condition_.wait_until(mutex, deadline);
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  RawCondition condition_;
};

}  // namespace keyway
