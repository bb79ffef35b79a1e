// For tests: the worker of a sticky lane in a simulation. It has one thread, as a WorkerThread does: while its item
// blocks, none of its other items runs.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "keyway/testing/sim_scheduler.h"
#include "runtime/current_scheduler.h"

namespace keyway {

class SimWorker final : public DrivenScheduler, private Runnable {
 public:
  explicit SimWorker(testing::SimScheduler& sim) : sim_(sim) {}

  void post(Runnable& runnable) override {
    items_.push_back(&runnable);
    if (!std::exchange(is_busy_, true)) sim_.post(*this);
  }
  std::size_t max_threads() const override { return 1; }

  TimePoint now() const override { return sim_.now(); }
  void add_timer(Timer& timer, TimePoint deadline) override { sim_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return sim_.cancel_timer(timer); }
  void wait_for_turns_in_progress() override {}
  Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
              const TimePoint* deadline) override {
    return sim_.sleep(word, expected, deadline);
  }
  bool run_one() override { return sim_.run_one(); }

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

  testing::SimScheduler& sim_;
  std::deque<Runnable*> items_;
  bool is_busy_ = false;  // posted, or in an item
};

}  // namespace keyway
