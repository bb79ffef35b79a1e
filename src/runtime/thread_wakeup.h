// Blocks a thread until it is woken, and lets it make itself useful meanwhile where nobody else would.
//
// Thread safety: wake() from any thread, once; wait() from one thread. It may be destroyed when wait() has
// said true.
#pragma once

#include <chrono>

#include "base/futex.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/task_core.h"

namespace keyway {

// How long a thread sleeps that must look after others too.
inline constexpr auto kNap = std::chrono::milliseconds(1);

class ThreadWakeup final : public detail::Wakeup {
 public:
  void wake() noexcept override {
    // acq_rel: what the waker did is seen by who is woken; and that one's sleep by the waker.
    if (state_.exchange(kWoken, std::memory_order_acq_rel) == kAsleep) futex_wake_one(state_);
  }
  bool woken() const { return state_.load(std::memory_order_acquire) == kWoken; }

  // Makes a wait() that sleeps come back, without what it waits for. What is to be given to futex_wake_one(), at
  // any time later, or null. REQUIRES: wake() is not called meanwhile.
  const detail::Atomic<std::uint32_t>* nudge() {
    return state_.exchange(kNudged, std::memory_order_acq_rel) == kAsleep ? &state_ : nullptr;
  }
  // Whether that was the reason; once.
  bool take_nudge() {
    std::uint32_t expected = kNudged;
    return state_.compare_exchange_strong(expected, kAwake, std::memory_order_acq_rel);
  }

  // `scheduler`: of the calling thread; null: it is none of Keyway's.
  // False if `deadline` came first, if it was nudged, or if nothing is left that could happen in a simulation.
  bool wait(Scheduler* scheduler, const TimePoint* deadline = nullptr) {
    const bool simulated = scheduler != nullptr && scheduler->has_no_threads();
    const Alarm alarm(scheduler, simulated ? deadline : nullptr);
    while (!woken()) {
      if (state_.load(std::memory_order_relaxed) == kNudged) return false;
      if (deadline != nullptr && now(scheduler) >= *deadline) return woken();
      if (scheduler != nullptr && scheduler->run_one()) continue;
      if (simulated) return woken();
      const bool naps = scheduler != nullptr && scheduler->has_no_other_thread();
      Deadline until = naps ? Deadline(std::chrono::steady_clock::now() + kNap) : std::nullopt;
      if (deadline != nullptr && (!until || *deadline < *until)) until = *deadline;
      sleep(until);
    }
    return true;
  }
  bool wait(Scheduler& scheduler, const TimePoint* deadline = nullptr) {
    return wait(&scheduler, deadline);
  }

 private:
  // So that a simulation's time does not jump over the deadline.
  class Alarm final : public Timer {
   public:
    Alarm(Scheduler* scheduler, const TimePoint* deadline)
        : scheduler_(deadline != nullptr ? scheduler : nullptr) {
      if (scheduler_ != nullptr) scheduler_->add_timer(*this, *deadline);
    }
    ~Alarm() {
      if (scheduler_ != nullptr) scheduler_->cancel_timer(*this);
    }
    void fire() override {}

   private:
    Scheduler* const scheduler_;
  };

  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;
  static constexpr std::uint32_t kWoken = 2;
  static constexpr std::uint32_t kNudged = 3;

  static TimePoint now(Scheduler* scheduler) {
    return scheduler != nullptr ? scheduler->now() : std::chrono::steady_clock::now();
  }
  void sleep(Deadline until) {
    std::uint32_t expected = kAwake;
    state_.compare_exchange_strong(expected, kAsleep, std::memory_order_acq_rel);
    if (expected == kAwake || expected == kAsleep) futex_wait(state_, kAsleep, until);
  }

  detail::Atomic<std::uint32_t> state_{kAwake};
};

}  // namespace keyway
