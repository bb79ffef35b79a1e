// Timers by deadline: a heap without a thread of its own.
//
// Thread safety: every method from any thread, but fire_one() and fire_due() from one at a time.
#pragma once

#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "keyway/scheduler.h"

namespace keyway {

class TimerQueue {
 public:
  // True if it is now the earliest: whoever waits for the next deadline must look again.
  bool add(Timer& timer, TimePoint deadline) KEYWAY_EXCLUDES(mutex_);

  // As Scheduler::cancel_timer. The caller must be the only one who adds the timer meanwhile, besides its fire().
  bool cancel(Timer& timer) KEYWAY_EXCLUDES(mutex_);

  // Fires the earliest timer, without the lock, if its deadline is not after `now`. False if there
  // is none such.
  bool fire_one(TimePoint now) KEYWAY_EXCLUDES(mutex_);
  void fire_due(TimePoint now) {
    while (fire_one(now)) {
    }
  }

  std::optional<TimePoint> next_deadline() const KEYWAY_EXCLUDES(mutex_);

 private:
  void place(Timer& timer, std::size_t index) KEYWAY_REQUIRES(mutex_);
  void sift_up(std::size_t index) KEYWAY_REQUIRES(mutex_);
  void sift_down(std::size_t index) KEYWAY_REQUIRES(mutex_);
  void remove(std::size_t index) KEYWAY_REQUIRES(mutex_);

  mutable Mutex<LockRank::kTimerQueue> mutex_;
  CondVar fired_;
  std::vector<Timer*> heap_ KEYWAY_GUARDED_BY(mutex_);
  const Timer* firing_ KEYWAY_GUARDED_BY(mutex_) = nullptr;
  std::thread::id firing_thread_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
