// Blocks a thread until it is woken, and lets it make itself useful meanwhile where nobody else would.
//
// Thread safety: wake() from any thread, once; wait() from one thread. It may be destroyed when wait() has
// said true.
#pragma once

#include <atomic>
#include <chrono>

#include "base/futex.h"
#include "keyway/detail/task_core.h"

namespace keyway {

// How long a thread sleeps that must look after others too.
inline constexpr auto kNap = std::chrono::milliseconds(1);

class ThreadWakeup final : public detail::Wakeup {
 public:
  void wake() noexcept override {
    woken_.store(1, std::memory_order_release);
    futex_wake_one(woken_);
  }

  // False if `deadline` came first, or if nothing is left that could happen in a simulation.
  bool wait(Scheduler& scheduler, const TimePoint* deadline = nullptr) {
    const Alarm alarm(scheduler, scheduler.has_no_threads() ? deadline : nullptr);
    while (!woken()) {
      if (deadline != nullptr && scheduler.now() >= *deadline) return woken();
      if (scheduler.run_one()) continue;
      if (scheduler.has_no_threads()) return woken();
      const TimePoint nap_over = std::chrono::steady_clock::now() + kNap;
      Deadline until = scheduler.has_no_other_thread() ? Deadline(nap_over) : std::nullopt;
      if (deadline != nullptr && (!until || *deadline < *until)) until = *deadline;
      futex_wait(woken_, 0, until);
    }
    return true;
  }

 private:
  // So that a simulation's time does not jump over the deadline.
  class Alarm final : public Timer {
   public:
    Alarm(Scheduler& scheduler, const TimePoint* deadline)
        : scheduler_(deadline != nullptr ? &scheduler : nullptr) {
      if (scheduler_ != nullptr) scheduler_->add_timer(*this, *deadline);
    }
    ~Alarm() {
      if (scheduler_ != nullptr) scheduler_->cancel_timer(*this);
    }
    void fire() override {}

   private:
    Scheduler* const scheduler_;
  };

  bool woken() const { return woken_.load(std::memory_order_acquire) != 0; }

  std::atomic<std::uint32_t> woken_{0};
};

}  // namespace keyway
