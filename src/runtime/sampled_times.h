// How long something takes that may happen millions of times a second.
//
//   SampledTimes waits(clock);
//   const TimePoint began = waits.begin();
//   ...
//   if (began != TimePoint()) waits.end(began);
//
// To measure a time costs as much as half a task that does nothing. So each is measured while there are few, and every
// kEvery-th of a thread's while there are more than 50,000 a second. When there are fewer again, a thread may leave out up to
// kEvery - 1 more.
//
// Thread safety: every method from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/histogram.h"
#include "keyway/explanation.h"
#include "keyway/scheduler.h"

namespace keyway {

TimeSummary summary_of(const Histogram& times);

class SampledTimes {
 public:
  // `clock`: null for the real time.
  explicit SampledTimes(const Scheduler* clock) : clock_(clock) {}

  TimePoint now() const;
  // When it begins; the epoch if it is not measured.
  TimePoint begin() const;
  // Returns the time.
  TimePoint end(TimePoint began);
  TimeSummary summary() const { return summary_of(times_.snapshot()); }

  static constexpr unsigned kEvery = 16;  // a power of two

 private:
  // So many measured ones in so short a time are a flood.
  static constexpr std::uint64_t kLookAfter = 1024;
  static constexpr Duration kQuick = std::chrono::milliseconds(20);

  const Scheduler* const clock_;
  // All relaxed: they count, or are hints.
  std::atomic<bool> floods_{false};
  std::atomic<std::uint64_t> measured_{0};
  std::atomic<Duration::rep> looked_{0};
  ConcurrentHistogram times_;
};

}  // namespace keyway
