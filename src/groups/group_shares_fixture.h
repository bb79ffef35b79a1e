// For tests of weights, guarantees, rates and adaptive limits: an executor in a simulation, whose tasks are counted.
#pragma once

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {

// An executor in a simulation. Its tasks write down in which group and when they began.
class GroupShares : public ::testing::Test {
 protected:
  void make(GroupPolicy policy) {
    executor_ = std::make_unique<GroupExecutor>(std::move(policy), sim_);
  }
  void submit(const std::string& group, int count, Duration time = std::chrono::milliseconds(10)) {
    for (int i = 0; i < count; ++i) {
      handles_.push_back(executor_->submit(group, "t", [this, group, time]() -> Task<void> {
        began_.push_back(group);
        times_.push_back(sim_.now() - start_);
        co_await sleep_for(time);
      }));
    }
  }
  // Tasks that run until end_burst(), which ends all that run at once: no turn of a lane runs between two ends.
  void submit_for_bursts(const std::string& group, int count) {
    for (int i = 0; i < count; ++i) {
      handles_.push_back(executor_->submit(group, "t", [this, group]() -> Task<void> {
        began_.push_back(group);
        co_await Burst{running_until_burst_};
        co_await reschedule();
      }));
    }
  }
  void end_burst() {
    for (const std::coroutine_handle<> waiter : std::exchange(running_until_burst_, {}))
      waiter.resume();
  }
  void end_all() {
    do {
      end_burst();
      sim_.advance(std::chrono::seconds(1));
    } while (!running_until_burst_.empty());
    EXPECT_EQ(executor_->stats().waiting, 0U);
  }
  int began(const std::string& group) const {
    return static_cast<int>(std::count(began_.begin(), began_.end(), group));
  }
  std::uint64_t running(const std::string& group) { return executor_->group_stats(group).running; }

  struct Burst {
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { waiters.push_back(waiter); }
    void await_resume() const {}
    std::vector<std::coroutine_handle<>>& waiters;
  };

  testing::SimScheduler sim_;
  std::vector<std::coroutine_handle<>> running_until_burst_;
  const TimePoint start_ = sim_.now();
  std::vector<std::string> began_;
  std::vector<Duration> times_;
  std::vector<TaskHandle<void>> handles_;
  std::unique_ptr<GroupExecutor> executor_;
};

inline GroupLimits wide() { return {.max_concurrency = 1000}; }

}  // namespace keyway
