// How much waits in all queues of a SerialDispatcher together, and how long it has to.
//
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>

#include "keyway/detail/atomic.h"
#include "keyway/group_policy.h"
#include "keyway/scheduler.h"
#include "runtime/sampled_times.h"

namespace keyway {

class SerialLoad {
 public:
  // `clock`: null for the real time.
  SerialLoad(int total_capacity, const Scheduler* clock)
      : capacity_(total_capacity), waits_(clock) {}

  bool has_limit() const { return capacity_ != kUnlimited; }
  // False if as many wait as may. REQUIRES: has_limit().
  bool take_place() {
    // Not a fetch_add() that is undone: until then it would keep others from a place that is free.
    // relaxed: it only counts.
    std::int64_t waiting = waiting_.load(std::memory_order_relaxed);
    do {
      if (waiting >= capacity_) return false;
    } while (!waiting_.compare_exchange_weak(waiting, waiting + 1, std::memory_order_relaxed));
    return true;
  }
  void give_back_place() { waiting_.fetch_sub(1, std::memory_order_relaxed); }

  SampledTimes& waits() { return waits_; }
  const SampledTimes& waits() const { return waits_; }

  void count_rejected() { rejected_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }

 private:
  const std::int64_t capacity_;
  detail::Atomic<std::uint64_t> rejected_{0};  // because of the total
  SampledTimes waits_;
  alignas(64) detail::Atomic<std::int64_t> waiting_{0};
};

}  // namespace keyway
