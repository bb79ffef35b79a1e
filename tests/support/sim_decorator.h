// For tests: a scheduler that passes time, timers, sleeps and steps on to a simulation. Subclasses decide about post().
#pragma once

#include <cstdint>

#include "keyway/testing/sim_scheduler.h"

namespace keyway {

class SimDecorator : public DrivenScheduler {
 public:
  explicit SimDecorator(testing::SimScheduler& sim) : sim_(sim) {}

  TimePoint now() const override { return sim_.now(); }
  void add_timer(Timer& timer, TimePoint deadline) override { sim_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return sim_.cancel_timer(timer); }
  bool wait_for_turns_in_progress(const TimePoint*) override { return true; }
  Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
              const TimePoint* deadline) override {
    return sim_.sleep(word, expected, deadline);
  }
  bool run_one() override { return sim_.run_one(); }

 protected:
  testing::SimScheduler& sim_;
};

}  // namespace keyway
