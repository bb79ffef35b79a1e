// A Scheduler whose threads are explored threads: they call work().
//
// It is as small as it can be, so that the explorer spends its interleavings on what runs on it: posting an item
// and taking one are one yield point each. Time is the explorer's: a timer fires when nothing else can run, or, with
// times_out_any_time, at any moment.
//
// Thread safety: every method from any explored thread.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "explore/explorer.h"
#include "keyway/scheduler.h"
#include "runtime/current_scheduler.h"

namespace keyway::explore {

class ExploredScheduler final : public Scheduler {
 public:
  // `max_threads`: what the library is told. Without, a scenario has threads enough for its waits.
  explicit ExploredScheduler(std::size_t max_threads = kUnlimitedThreads)
      : max_threads_(max_threads) {}
  std::size_t max_threads() const override { return max_threads_; }

  void post(Runnable& runnable) override {
    yield();
    items_.push_back(&runnable);
    changed();
  }

  TimePoint now() const override { return explore::now(); }

  void add_timer(Timer& timer, TimePoint deadline) override {
    yield();
    if (before_add_timer) before_add_timer(deadline);
    timers_.push_back({&timer, deadline});
    ++timers_changed_;
    changed();
  }
  bool cancel_timer(Timer& timer) override {
    yield();
    const auto remove = [&] {
      return std::erase_if(timers_, [&](const Queued& queued) { return queued.timer == &timer; }) >
             0;
    };
    bool was_queued = remove();
    while (firing_ == &timer && firing_thread_ != this_thread()) {
      wait_until("a timer that fires", [&] { return firing_ != &timer; });
      was_queued = remove() || was_queued;  // its fire() may have added it
    }
    return was_queued;
  }

  bool wait_for_turns_in_progress(const TimePoint*) override {
    const std::array<std::uint64_t, kMaxThreads> seen = turns_;
    for (int thread = 0; thread < kMaxThreads; ++thread) {
      const auto i = static_cast<std::size_t>(thread);
      if (thread == this_thread() || seen[i] % 2 == 0) continue;
      wait_until("a turn in progress", [&, i] { return turns_[i] != seen[i] || blocked_[i] > 0; });
    }
    return true;
  }

  // A blocked thread is not replaced: a wait that leaves no thread is a deadlock, which the explorer finds.
  void begin_blocking() override {
    ++blocked_[static_cast<std::size_t>(this_thread())];
    changed();
  }
  void end_blocking() override { --blocked_[static_cast<std::size_t>(this_thread())]; }
  Scheduler* background() override { return nullptr; }

  // Runs posted items and fires timers until stop().
  void work() {
    while (true) {
      const std::uint64_t timers_seen = timers_changed_;
      wait_until(
          "work", [&] { return !items_.empty() || stopping_ || timers_changed_ != timers_seen; },
          earliest());
      if (!items_.empty()) {
        run_first();
      } else if (!fire_one() && stopping_) {
        return;
      }
    }
  }
  void stop() {
    stopping_ = true;
    changed();
  }
  std::size_t timers() const { return timers_.size(); }
  // For scenarios in which a timer is added late.
  std::function<void(TimePoint deadline)> before_add_timer;

 private:
  struct Queued {
    Timer* timer;
    TimePoint deadline;
  };

  void run_first() {
    Runnable* item = items_.front();
    items_.pop_front();
    const auto me = static_cast<std::size_t>(this_thread());
    ++turns_[me];
    Turn turn;
    {
      const CurrentScheduler here(this);
      item->run(turn);
    }
    ++turns_[me];
    changed();
    if (turn.again != nullptr) post(*turn.again);
  }
  // One timer fires at a time: the others wait for its end, not for their deadlines.
  Deadline earliest() const {
    if (timers_.empty() || firing_ != nullptr) return {};
    return std::ranges::min_element(timers_, {}, &Queued::deadline)->deadline;
  }
  bool fire_one() {
    if (firing_ != nullptr || timers_.empty()) return false;
    const auto first = std::ranges::min_element(timers_, {}, &Queued::deadline);
    if (first->deadline > now()) return false;
    Timer* timer = first->timer;
    timers_.erase(first);
    firing_ = timer;
    firing_thread_ = this_thread();
    timer->fire();
    firing_ = nullptr;
    ++timers_changed_;
    changed();
    return true;
  }

  const std::size_t max_threads_;
  std::deque<Runnable*> items_;
  std::vector<Queued> timers_;
  std::uint64_t timers_changed_ = 0;
  const Timer* firing_ = nullptr;
  int firing_thread_ = -1;
  std::array<std::uint64_t, kMaxThreads> turns_{};  // odd while one is in progress
  std::array<int, kMaxThreads> blocked_{};          // depth of blocking regions
  bool stopping_ = false;
};

}  // namespace keyway::explore
