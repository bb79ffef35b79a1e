// The locks of exploration builds: a thread that waits for one is not run until the lock is free.
#pragma once

#include <cstdint>

#include "base/explore_hooks.h"
#include "base/thread_annotations.h"

namespace keyway::explore {

class ExploredLock {
 public:
  void lock(LockRank rank) { explore::lock(held_, rank); }
  bool try_lock(LockRank rank) { return explore::try_lock(held_, rank); }
  void unlock() { explore::unlock(held_); }

 private:
  std::uint32_t held_ = 0;
};

class ExploredCondition {
 public:
  template <class Mutex>
  void wait(Mutex& mutex) {
    wait(mutex, std::nullopt);
  }
  template <class Mutex>
  void wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline) {
    wait(mutex, Deadline(deadline));
  }
  void notify_one() { notify(this, /*all=*/false); }
  void notify_all() { notify(this, /*all=*/true); }

 private:
  template <class Mutex>
  void wait(Mutex& mutex, Deadline deadline) KEYWAY_NO_THREAD_SAFETY_ANALYSIS {
    announce_wait(this);
    mutex.unlock();
    wait_for_notify(this, deadline);
    mutex.lock();
  }
};

}  // namespace keyway::explore
