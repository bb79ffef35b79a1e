// Calls a function at once, and then again and again, on the scheduler's thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "keyway/scheduler.h"

namespace keyway::jobs {

class RepeatingTimer final : private Timer {
 public:
  RepeatingTimer(Scheduler& scheduler, std::chrono::milliseconds every, std::function<void()> call)
      : scheduler_(scheduler),
        every_(std::max(every, std::chrono::milliseconds(1))),
        call_(std::move(call)) {
    fire();
  }
  ~RepeatingTimer() { scheduler_.cancel_timer(*this); }

 private:
  void fire() override {
    call_();
    scheduler_.add_timer(*this, scheduler_.now() + every_);
  }

  Scheduler& scheduler_;
  const std::chrono::milliseconds every_;
  const std::function<void()> call_;
};

}  // namespace keyway::jobs
