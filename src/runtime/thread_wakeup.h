// A Waitable that another thread completes once, by wake().
//
//   ThreadWakeup wakeup;
//   start(wakeup);                      // another thread calls wakeup.wake() later
//   block(wakeup);
//
// Thread safety: wake() from any thread, once; kick() and nudge() from any thread; the rest by the waiter.
// Lifetime: it may be destroyed when the waiter has seen done().
#pragma once

#include <cstdint>

#include "base/futex.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/task_core.h"
#include "runtime/blocking.h"

namespace keyway {

class ThreadWakeup final : public detail::Wakeup {
 public:
  void wake() noexcept override {
    // acq_rel: the waiter sees the waker's writes; the waker sees that the waiter sleeps.
    if (state_.exchange(kWoken, std::memory_order_acq_rel) == kAsleep) futex_wake_one(state_);
  }

  // Waitable.
  bool done() const { return state_.load(std::memory_order_acquire) == kWoken; }
  std::uint32_t announce() {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    while (state != kWoken &&
           !state_.compare_exchange_weak(state, kAsleep, std::memory_order_acq_rel)) {
    }
    return kAsleep;
  }
  const detail::Atomic<std::uint32_t>& word() const { return state_; }
  void kick() {
    if (const detail::Atomic<std::uint32_t>* asleep = nudge()) futex_wake_one(*asleep);
  }

  // kick() without the wake-up. Returns the futex on which the caller must call futex_wake_one(),
  // at any later time, or null.
  const detail::Atomic<std::uint32_t>* nudge() {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    do {
      if (state == kWoken) return nullptr;
    } while (!state_.compare_exchange_weak(state, kNudged, std::memory_order_acq_rel));
    return state == kAsleep ? &state_ : nullptr;
  }
  // Whether it was nudged since the last announce().
  bool nudged() const { return state_.load(std::memory_order_relaxed) == kNudged; }

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;
  static constexpr std::uint32_t kWoken = 2;
  static constexpr std::uint32_t kNudged = 3;

  detail::Atomic<std::uint32_t> state_{kAwake};
};

}  // namespace keyway
