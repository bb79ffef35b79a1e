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
  const bool measured = ++count % every_.load(std::memory_order_relaxed) == 0;
  return measured ? now() : TimePoint();
}

void SerialLoad::end_wait(TimePoint began) {
  if (began == TimePoint()) return;
  const TimePoint ended = now();
  waits_.add(ended - began);
  if (measured_.fetch_add(1, std::memory_order_relaxed) % kLookAfter != kLookAfter - 1) return;
  const Duration::rep looked =
      looked_.exchange(ended.time_since_epoch().count(), std::memory_order_relaxed);
  const Duration took = ended.time_since_epoch() - Duration(looked);
  const unsigned every = every_.load(std::memory_order_relaxed);
  every_.store(took < kQuick * every ? kEvery : 1, std::memory_order_relaxed);
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

QueuePlace::QueuePlace(SerialLoad& load, bool counts)
    : load_(&load), counts_(counts), submitted_(load.begin_wait()) {}

bool QueuePlace::matters() const {
  return submitted_ != TimePoint() || (counts_ && load_->has_limit());
}

void QueuePlace::leave() {
  load_->end_wait(submitted_);
  if (counts_) load_->give_back_place();
  load_ = nullptr;
}

void QueuePlace::give_back() noexcept { load_->give_back_place(); }

}  // namespace detail
}  // namespace keyway
