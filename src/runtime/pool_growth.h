// How many threads a pool should have, from how many of them are at work and how many are blocked.
//
// The pool replaces each blocked thread, so that `base_threads` can run. If many threads are
// blocked, it expects more to block: it adds a quarter of their number, and doubles if all threads
// are blocked.
//
// Thread safety: one thread.
#pragma once

#include <algorithm>
#include <utility>

#include "keyway/scheduler.h"

namespace keyway {

// When to look again which threads are blocked. A look at a thousand threads takes a millisecond, on the thread that also
// fires timers, so looks may take a twentieth of its time: they are up to 20 times their CPU time apart, and at least a tick.
class ProbePace {
 public:
  bool is_due(TimePoint now) const { return now >= next_; }
  // A look that has just ended took so much CPU time.
  void looked(TimePoint now, Duration took) { next_ = now + kPause * took; }

 private:
  static constexpr int kPause = 19;  // times as long as the look

  TimePoint next_{};
};

class PoolGrowth {
 public:
  PoolGrowth(unsigned base_threads, unsigned max_threads)
      : base_threads_(base_threads), max_threads_(max_threads) {}

  struct Decision {
    unsigned target;  // how many threads may be active
    unsigned more;    // how many threads to wake or start now
  };

  // Once per look at the threads, while work is ready. REQUIRES: blocked <= active.
  Decision decide(unsigned active, unsigned blocked) {
    const unsigned running = active - blocked;
    unsigned more = base_threads_ - std::min(base_threads_, running);
    if (more > 0) more = std::max(more, running == 0 ? active : blocked / 4);
    const unsigned target = std::max(recent_peak(blocked) + base_threads_, active + more);
    return {.target = std::min(target, max_threads_), .more = more};
  }

 private:
  static constexpr int kLooksInWindow = 16;

  // The maximum number of blocked threads in the last 16 to 32 looks. Threads that slept together
  // wake together: few are blocked for a moment, and then all of them block again.
  unsigned recent_peak(unsigned blocked) {
    if (++looks_in_window_ == kLooksInWindow) {
      looks_in_window_ = 0;
      peak_before_ = std::exchange(peak_now_, 0);
    }
    peak_now_ = std::max(peak_now_, blocked);
    return std::max(peak_before_, peak_now_);
  }

  const unsigned base_threads_;
  const unsigned max_threads_;
  int looks_in_window_ = 0;
  unsigned peak_now_ = 0;
  unsigned peak_before_ = 0;
};

}  // namespace keyway
