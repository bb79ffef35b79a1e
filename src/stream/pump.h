// Something that has work to do now and then, on a scheduler's threads: one step at a time, and one more after each
// wake().
//
// Thread safety: wake() from any thread.
// Lifetime: settle() before it is destroyed, when nobody wakes it any more.
#pragma once

#include "base/spin_lock.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/driven_scheduler.h"
#include "keyway/scheduler.h"

namespace keyway {

class Pump : private Runnable {
 public:
  explicit Pump(Scheduler& scheduler) : scheduler_(scheduler) {}

  // A step that begins after this call sees the caller's earlier writes. A step that is running may
  // miss them, and is followed by another one: run() stores kRunning before it calls step().
  void wake() noexcept {
    State state = state_.load();
    while (true) {
      if (state == State::kPosted || state == State::kWantedAgain) return;
      const State next = state == State::kIdle ? State::kPosted : State::kWantedAgain;
      if (!state_.compare_exchange_weak(state, next)) continue;
      if (next == State::kPosted) scheduler_.post(*this);
      return;
    }
  }

 protected:
  ~Pump() = default;
  virtual void step() = 0;

  // Waits until no step runs or is going to.
  void settle() {
    auto* driven = scheduler_.is_driven() ? static_cast<DrivenScheduler*>(&scheduler_) : nullptr;
    while (state_.load(std::memory_order_acquire) != State::kIdle) {
      if (driven == nullptr || !driven->run_one()) yield_thread();
    }
    scheduler_.wait_for_turns_in_progress();
  }

 private:
  enum class State : int { kIdle, kPosted, kRunning, kWantedAgain };

  void run(Turn& turn) override {
    state_.exchange(State::kRunning);
    step();
    State expected = State::kRunning;
    if (state_.compare_exchange_strong(expected, State::kIdle)) return;
    state_.store(State::kPosted);
    turn.again = this;
  }

  Scheduler& scheduler_;
  // Written by every step and read by every wake(): on a cache line of its own.
  alignas(64) detail::Atomic<State> state_{State::kIdle};
};

}  // namespace keyway
