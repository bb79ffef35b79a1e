// Something that has work to do now and then, on a scheduler's threads: one step at a time, and one more after each
// wake(), up to the last step.
//
// A scheduler does not give a posted item back, so a posted pump needs a thread before it can be destroyed, and there may be
// none. Therefore a pump decides in a step that it ends: from then on it is not posted again.
//
// Thread safety: wake() from any thread, also after the last step.
// Lifetime: it may be destroyed when ended() was called and no thread is in wake(), or if it was never woken.
#pragma once

#include "keyway/detail/atomic.h"
#include "keyway/detail/check.h"
#include "keyway/scheduler.h"

namespace keyway {

class Pump : private Runnable {
 public:
  explicit Pump(Scheduler& scheduler) : scheduler_(scheduler) {}

  // A step that begins after this call sees the caller's earlier writes. A step that is running may
  // miss them, and is followed by another one: run() stores kRunning before it calls step(). After
  // the last step it does nothing.
  void wake() noexcept {
    State state = state_.load();
    while (true) {
      if (state == State::kPosted || state == State::kWantedAgain) return;
      if (state == State::kEnded) return;
      const State next = state == State::kIdle ? State::kPosted : State::kWantedAgain;
      if (!state_.compare_exchange_weak(state, next)) continue;
      if (next == State::kPosted) scheduler_.post(*this);
      return;
    }
  }

 protected:
  ~Pump() {
    const State state = state_.load();
    KEYWAY_CHECK(state == State::kIdle || state == State::kEnded,
                 "a pump is destroyed while it is posted or runs");
  }

  // False: this was the last step. Then ended() is called, after which the pump may be destroyed.
  virtual bool step() = 0;
  virtual void ended() = 0;

 private:
  enum class State : int { kIdle, kPosted, kRunning, kWantedAgain, kEnded };

  void run(Turn& turn) override {
    state_.exchange(State::kRunning);
    if (!step()) {
      state_.store(State::kEnded);
      return ended();
    }
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
