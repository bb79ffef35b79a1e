// For tests of what happens around the end of a task.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task_listener.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {

// Calls a function of the test when a task ends, however it ends.
class EndListener final : public TaskLifecycleListener {
 public:
  void on_completed(std::string_view, std::string_view id, const TaskOutcome&) override {
    if (ended) ended(std::string(id));
  }
  void on_rejected(std::string_view, std::string_view id, RejectionReason) override {
    if (ended) ended(std::string(id));
  }
  std::function<void(const std::string& id)> ended;
};

// An executor in a simulation, with a listener.
template <class Listener>
class ListenedExecutor : public ::testing::Test {
 protected:
  // Destroys the executor of before, if there is one.
  void make(GroupPolicy policy = {}) {
    policy.listener = listener_;
    executor_.emplace(std::move(policy), sim_);
  }

  testing::SimScheduler sim_;
  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  std::optional<GroupExecutor> executor_;
};

}  // namespace keyway
