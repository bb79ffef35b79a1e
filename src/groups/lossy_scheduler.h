// For tests: a simulation's threads, which lose a wake-up now and then if asked to, which must be found.
#pragma once

#include <vector>

#include "keyway/detail/idle_listener.h"
#include "support/sim_threads.h"

namespace keyway {

class LossyScheduler final : public SimThreads {
 public:
  LossyScheduler(testing::SimScheduler& sim, bool loses, std::size_t threads = kUnlimitedThreads)
      : SimThreads(sim, threads), loses_(loses) {}

  void post(Runnable& runnable) override {
    if (loses_ && sim_.random_below(20) == 0) {
      lost_.push_back(&runnable);
    } else {
      SimThreads::post(runnable);
    }
  }
  void find_lost() {
    loses_ = false;
    for (Runnable* runnable : lost_) SimThreads::post(*runnable);
    lost_.clear();
  }
  std::size_t lost() const { return lost_.size(); }

  // Memory may be asked back at any moment.
  bool run_one() override {
    if (listener_ != nullptr && sim_.random_below(16) == 0) listener_->scheduler_is_idle();
    return sim_.run_one();
  }
  void add_idle_listener(IdleListener& listener) override { listener_ = &listener; }
  void remove_idle_listener(IdleListener&) override { listener_ = nullptr; }

 private:
  IdleListener* listener_ = nullptr;
  bool loses_;
  std::vector<Runnable*> lost_;
};

}  // namespace keyway
