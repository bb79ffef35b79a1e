// How much waits in all queues of a SerialDispatcher together, and how long it has to.
//
// To measure a wait costs as much as half a task that does nothing. So each is measured while there are few, and every
// kEvery-th of a thread's while there are more than 50,000 a second.
//
// Thread safety: every method from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/histogram.h"
#include "keyway/explanation.h"
#include "keyway/group_policy.h"
#include "keyway/scheduler.h"

namespace keyway {

class SerialLoad {
 public:
  // `clock`: null for the real time.
  SerialLoad(int total_capacity, const Scheduler* clock)
      : capacity_(total_capacity), clock_(clock) {}

  bool has_limit() const { return capacity_ != kUnlimited; }
  // False if as many wait as may. REQUIRES: has_limit().
  bool take_place() {
    // relaxed: it only counts.
    if (waiting_.fetch_add(1, std::memory_order_relaxed) < capacity_) return true;
    give_back_place();
    return false;
  }
  void give_back_place() { waiting_.fetch_sub(1, std::memory_order_relaxed); }

  TimePoint now() const;
  // When a wait begins; the epoch if it is not measured.
  TimePoint begin_wait() const;
  void end_wait(TimePoint began);
  TimeSummary waits() const;

  void count_rejected() { rejected_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }

  static constexpr unsigned kEvery = 16;  // a power of two

 private:
  // So many measured waits in so short a time are a flood.
  static constexpr std::uint64_t kLookAfter = 1024;
  static constexpr Duration kQuick = std::chrono::milliseconds(20);

  const std::int64_t capacity_;
  const Scheduler* const clock_;
  // All relaxed: they count, or are hints.
  std::atomic<bool> floods_{false};
  std::atomic<std::uint64_t> measured_{0};
  std::atomic<Duration::rep> looked_{0};
  std::atomic<std::uint64_t> rejected_{0};  // because of the total
  ConcurrentHistogram waits_;
  alignas(64) std::atomic<std::int64_t> waiting_{0};
};

}  // namespace keyway
