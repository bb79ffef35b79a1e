#include "serial/serial_load.h"

#include "base/tick_clock.h"
#include "keyway/detail/queued_call.h"

namespace keyway {

TimePoint SerialLoad::now() const {
  static constinit thread_local TickClock ticks;
  return clock_ != nullptr ? clock_->now() : ticks.now();
}

TimePoint SerialLoad::begin_wait() const {
  static constinit thread_local unsigned count = 0;
  const bool skipped = floods_.load(std::memory_order_relaxed) && ++count % kEvery != 0;
  return skipped ? TimePoint() : now();
}

void SerialLoad::end_wait(TimePoint began) {
  const TimePoint ended = now();
  waits_.add(ended - began);
  if (measured_.fetch_add(1, std::memory_order_relaxed) % kLookAfter != kLookAfter - 1) return;
  const Duration::rep looked =
      looked_.exchange(ended.time_since_epoch().count(), std::memory_order_relaxed);
  const Duration took = ended.time_since_epoch() - Duration(looked);
  const unsigned each_is = floods_.load(std::memory_order_relaxed) ? kEvery : 1;
  floods_.store(took < kQuick * each_is, std::memory_order_relaxed);
}

TimeSummary SerialLoad::waits() const {
  const Histogram times = waits_.snapshot();
  return {.count = times.count(),
          .p50 = times.quantile(0.5),
          .p95 = times.quantile(0.95),
          .p99 = times.quantile(0.99),
          .max = times.max()};
}

namespace detail {

QueuePlace::QueuePlace(SerialLoad& load) : load_(&load), kind_(Kind::kUncounted) {
  if (load.has_limit()) kind_ = load.take_place() ? Kind::kCounted : Kind::kNone;
  began_ = load.begin_wait();
}

void QueuePlace::leave() {
  if (began_ != TimePoint()) load_->end_wait(began_);
  if (kind_ == Kind::kCounted) load_->give_back_place();
  load_ = nullptr;
}

void QueuePlace::give_back() noexcept { load_->give_back_place(); }

}  // namespace detail
}  // namespace keyway
