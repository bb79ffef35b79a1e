// Calls a function at a time of a simulation.
#pragma once

#include <functional>
#include <utility>

#include "keyway/testing/sim_scheduler.h"

namespace keyway {

class CallAfter final : private Timer {
 public:
  CallAfter(testing::SimScheduler& sim, Duration time, std::function<void()> call)
      : sim_(sim), call_(std::move(call)) {
    sim_.add_timer(*this, sim.now() + time);
  }
  ~CallAfter() { sim_.cancel_timer(*this); }

 private:
  void fire() override { call_(); }

  testing::SimScheduler& sim_;
  std::function<void()> call_;
};

}  // namespace keyway
