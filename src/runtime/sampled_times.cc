#include "runtime/sampled_times.h"

#include "base/tick_clock.h"

namespace keyway {

TimeSummary summary_of(const Histogram& times) {
  return {.count = times.count(),
          .p50 = times.quantile(0.5),
          .p95 = times.quantile(0.95),
          .p99 = times.quantile(0.99),
          .max = times.max()};
}

TimePoint SampledTimes::now() const {
  static constinit thread_local TickClock ticks;
  return clock_ != nullptr ? clock_->now() : ticks.now();
}

TimePoint SampledTimes::begin() const {
  static constinit thread_local unsigned count = 0;
  const bool skipped = floods_.load(std::memory_order_relaxed) && ++count % kEvery != 0;
  return skipped ? TimePoint() : now();
}

TimePoint SampledTimes::end(TimePoint began) {
  const TimePoint ended = now();
  times_.add(ended - began);
  const bool floods = floods_.load(std::memory_order_relaxed);
  const Duration is_flood = kQuick * (floods ? kEvery : 1);
  const Duration time = ended.time_since_epoch();
  if (measured_.fetch_add(1, std::memory_order_relaxed) % kLookAfter == kLookAfter - 1) {
    const Duration looked(looked_.exchange(time.count(), std::memory_order_relaxed));
    floods_.store(time - looked < is_flood, std::memory_order_relaxed);
  } else if (floods && time - Duration(looked_.load(std::memory_order_relaxed)) >= is_flood) {
    floods_.store(false, std::memory_order_relaxed);
  }
  return ended;
}

}  // namespace keyway
