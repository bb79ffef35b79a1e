// std::mutex and std::condition_variable with the annotations that clang's analysis needs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/thread_annotations.h"

namespace keyway {

class KEYWAY_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() KEYWAY_ACQUIRE() { mutex_.lock(); }
  void unlock() KEYWAY_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class KEYWAY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) KEYWAY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() KEYWAY_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Wakes may be spurious: wait in a loop that checks the condition under the mutex.
class CondVar {
 public:
  void wait(Mutex& mutex) KEYWAY_REQUIRES(mutex) { condition_.wait(mutex); }
  void wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      KEYWAY_REQUIRES(mutex) {
    condition_.wait_until(mutex, deadline);
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace keyway
