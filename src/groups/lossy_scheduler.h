// For tests: passes everything on, but loses a wake-up now and then if asked to, which must be found.
#pragma once

#include <vector>

#include "keyway/detail/idle_listener.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {

class LossyScheduler final : public DrivenScheduler {
 public:
  LossyScheduler(testing::SimScheduler& sim, bool loses) : sim_(sim), loses_(loses) {}

  void post(Runnable& runnable) override {
    if (loses_ && sim_.random_below(20) == 0) {
      lost_.push_back(&runnable);
    } else {
      sim_.post(runnable);
    }
  }
  void find_lost() {
    loses_ = false;
    for (Runnable* runnable : lost_) sim_.post(*runnable);
    lost_.clear();
  }
  std::size_t lost() const { return lost_.size(); }

  TimePoint now() const override { return sim_.now(); }
  void add_timer(Timer& timer, TimePoint deadline) override { sim_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return sim_.cancel_timer(timer); }
  void wait_for_turns_in_progress() override {}
  Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
              const TimePoint* deadline) override {
    return sim_.sleep(word, expected, deadline);
  }
  // Memory may be asked back at any moment.
  bool run_one() override {
    if (listener_ != nullptr && sim_.random_below(16) == 0) listener_->scheduler_is_idle();
    return sim_.run_one();
  }
  void add_idle_listener(IdleListener& listener) override { listener_ = &listener; }
  void remove_idle_listener(IdleListener&) override { listener_ = nullptr; }

 private:
  IdleListener* listener_ = nullptr;
  testing::SimScheduler& sim_;
  bool loses_;
  std::vector<Runnable*> lost_;
};

}  // namespace keyway
