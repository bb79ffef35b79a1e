// For tests: simulates a WorkerThread. While one of its items blocks, no other item of it runs.
#pragma once

#include <deque>
#include <utility>

#include "runtime/current_scheduler.h"
#include "support/sim_decorator.h"

namespace keyway {

class SimWorker final : public SimDecorator, private Runnable {
 public:
  explicit SimWorker(testing::SimScheduler& sim) : SimDecorator(sim) {}

  void post(Runnable& runnable) override {
    items_.push_back(&runnable);
    if (!std::exchange(is_busy_, true)) sim_.post(*this);
  }
  std::size_t max_threads() const override { return 1; }

 private:
  void run(Turn& turn) override {
    Runnable& item = *items_.front();
    items_.pop_front();
    Turn own;
    {
      const CurrentScheduler here(this);
      item.run(own);
    }
    if (own.again != nullptr) items_.push_back(own.again);
    if (items_.empty()) {
      is_busy_ = false;
    } else {
      turn.again = this;
    }
  }

  std::deque<Runnable*> items_;
  bool is_busy_ = false;  // posted, or in an item
};

}  // namespace keyway
