// How many threads a pool should have, from how many of them are at work and how many are blocked.
//
// One that is blocked is made up for, so that as many as there are cores can run. If many are, more of
// the same is to be expected: their number grows by a fourth, and if all of them are, it is doubled.
//
// Thread safety: one thread.
#pragma once

#include <algorithm>
#include <utility>

namespace keyway {

class PoolGrowth {
 public:
  PoolGrowth(unsigned base_threads, unsigned max_threads)
      : base_threads_(base_threads), max_threads_(max_threads) {}

  struct Decision {
    unsigned target;  // how many may be active
    unsigned more;    // how many should be at once, besides those that are
  };

  // Once per tick while work is ready. REQUIRES: blocked <= active.
  Decision decide(unsigned active, unsigned blocked) {
    const unsigned running = active - blocked;
    unsigned more = base_threads_ - std::min(base_threads_, running);
    if (more > 0) more = std::max(more, running == 0 ? active : blocked / 4);
    const unsigned target = std::max(recent_peak(blocked) + base_threads_, active + more);
    return {.target = std::min(target, max_threads_), .more = more};
  }

 private:
  static constexpr int kTicksInWindow = 16;

  // The most that were blocked at once in the last 16 to 32 ticks. Threads that slept together wake
  // together: for a moment hardly one is blocked, and still they will all be in a moment more.
  unsigned recent_peak(unsigned blocked) {
    if (++ticks_in_window_ == kTicksInWindow) {
      ticks_in_window_ = 0;
      peak_before_ = std::exchange(peak_now_, 0);
    }
    peak_now_ = std::max(peak_now_, blocked);
    return std::max(peak_before_, peak_now_);
  }

  const unsigned base_threads_;
  const unsigned max_threads_;
  int ticks_in_window_ = 0;
  unsigned peak_now_ = 0;
  unsigned peak_before_ = 0;
};

}  // namespace keyway
