// Limits of a GroupExecutor that change, and queues that are full, while other threads submit, pause and shut down.
#include <chrono>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "keyway/task.h"

namespace keyway::explore {
namespace {

// Both changes hold, whichever of them tells the lane last.
class TwoChanges final : public GroupScenario {
 public:
  TwoChanges() : GroupScenario(2, {}) {
    const Uninterrupted setup;
    executor().pause_group("g");  // makes the lane
  }
  void client(int number) override {
    const GroupLimits change =
        number == 0 ? GroupLimits{.max_concurrency = 3} : GroupLimits{.max_in_flight = 2};
    require(executor().set_limits("g", change).ok(), "a change was refused");
  }
  void finish() override {
    require(executor().explain("g").limit == 2, "the lane has not been told the newest limits");
  }
};
TEST(ExploreGroupLimits, TwoChangesOfOneGroup) { expect_holds<TwoChanges>("GroupExecutor"); }

class ChangeOfANewGroup final : public GroupScenario {
 public:
  ChangeOfANewGroup() : GroupScenario(2, {}) {}
  void client(int number) override {
    if (number == 0) return executor().pause_group("g");  // makes the lane
    require(executor().set_limit("g", 2).ok(), "a change was refused");
  }
  void finish() override {
    require(executor().explain("g").limit == 2, "the lane was made with limits of before");
  }
};
TEST(ExploreGroupLimits, AChangeWhileTheLaneIsMade) {
  expect_holds<ChangeOfANewGroup>("GroupExecutor");
}

// Once set_limit("g", 1) has returned, no task begins while another one runs. Meanwhile another thread tells the lane limits
// that it may have looked up before.
class ALowerLimit : public GroupScenario {
 public:
  ALowerLimit() : GroupScenario(2, {.default_group = {.max_concurrency = 2}}) {
    const Uninterrupted setup;
    longer_ = executor().submit("g", [this] {
      longer_begins_.set();
      longer_runs_ = true;
      may_end_.wait("the end");
      longer_runs_ = false;
    });
    shorter_ = executor().submit("g", [this] {
      shorter_begins_.set();
      limit_is_set_.wait("the lower limit");
    });
    next_ = executor().submit("g", [this] {
      require(!limit_is_set_.is_set() || !longer_runs_, "a task began above a limit that was set");
    });
  }
  void client(int number) override {
    longer_begins_.wait("the first task");
    shorter_begins_.wait("the second task");
    if (number == 0) return look_limits_up();
    require(executor().set_limit("g", 1).ok(), "a change was refused");
    limit_is_set_.set();
  }
  void finish() override {
    may_end_.set();
    for (TaskHandle<void>* task : {&longer_, &shorter_, &next_}) (void)task->join();
    handle_.reset();
  }

 protected:
  virtual void look_limits_up() {
    require(executor().set_limits("g", {.queue_threshold = 5}).ok(), "a change was refused");
  }
  std::optional<GroupHandle> handle_;

 private:
  Event longer_begins_;
  Event shorter_begins_;
  Event limit_is_set_;
  Event may_end_;
  bool longer_runs_ = false;
  TaskHandle<void> longer_;
  TaskHandle<void> shorter_;
  TaskHandle<void> next_;
};
TEST(ExploreGroupLimits, ALowerLimitHoldsWhileAnotherOneChanges) {
  expect_holds<ALowerLimit>("GroupExecutor", {.threads = 4});
}

class ALowerLimitAfterAnEviction final : public ALowerLimit {
 public:
  ALowerLimitAfterAnEviction() {
    const Uninterrupted setup;
    executor().evict_group("g");
  }

 private:
  void look_limits_up() override { handle_.emplace(executor().group("g")); }
};
TEST(ExploreGroupLimits, ALowerLimitHoldsAfterAnEviction) {
  expect_holds<ALowerLimitAfterAnEviction>("GroupExecutor", {.threads = 4});
}

// The same of a lane that is just being made.
class ALowerLimitOfANewGroup final : public GroupScenario {
 public:
  ALowerLimitOfANewGroup() : GroupScenario(2, {.default_group = {.max_concurrency = 2}}) {}
  void client(int number) override {
    if (number == 0) return handle_.emplace(executor().group("g")), void();
    require(executor().set_limit("g", 1).ok(), "a change was refused");
    for (TaskHandle<void>& task : tasks_) {
      task = executor().submit("g", [this] { const Gauge::Inside inside(gauge_, 1); });
    }
    for (TaskHandle<void>& task : tasks_) (void)task.join();
  }
  void finish() override { handle_.reset(); }

 private:
  Gauge gauge_;
  std::optional<GroupHandle> handle_;
  TaskHandle<void> tasks_[2];
};
TEST(ExploreGroupLimits, ALowerLimitHoldsInALaneThatIsBeingMade) {
  expect_holds<ALowerLimitOfANewGroup>("GroupExecutor", {.threads = 4});
}

// A submit that begins before the change enters a lane that was there.
class AChangeAfterAnEviction final : public GroupScenario {
 public:
  AChangeAfterAnEviction() : GroupScenario(2, {}) {
    const Uninterrupted setup;
    executor().pause_group("g");  // keeps the lane
    (void)executor().post("g", [] {});
    executor().evict_group("g");
  }
  void client(int number) override {
    if (number == 1) return (void)executor().post("g", [] {});
    require(executor().set_limit("g", 2).ok(), "a change was refused");
  }
  void finish() override {
    require(executor().explain("g").limit == 2, "a submit has taken the change back");
    executor().resume_group("g");
    executor().drain();
  }
};
TEST(ExploreGroupLimits, AChangeAfterAnEvictionWhileATaskIsSubmitted) {
  expect_holds<AChangeAfterAnEviction>("GroupExecutor", {.threads = 3});
}

// Both changes hold for the gate and for the global queue, whichever of them is the last one.
class TwoChangesOfTheGlobalLimit final : public GroupScenario {
 public:
  TwoChangesOfTheGlobalLimit()
      : GroupScenario(2, {.global_max_in_flight = 1,
                          .global_queue_threshold = 0,
                          .rejection = RejectionPolicy::kDiscard}) {
    const Uninterrupted setup;
    executor().pause();
  }
  void client(int number) override {
    require(executor().set_global_limit(2 + number).ok(), "a change was refused");
  }
  void finish() override {
    std::uint64_t taken = 0;
    for (const char* key : {"a", "b", "c", "d"}) taken += executor().post(key, [] {}).ok() ? 1 : 0;
    require(executor().explain("a").global_limit == taken, "the global queue has another limit");
    executor().resume();
    executor().drain();
  }
};
TEST(ExploreGroupLimits, TwoChangesOfTheGlobalLimit) {
  expect_holds<TwoChangesOfTheGlobalLimit>("GroupExecutor", {.threads = 3});
}

// `target` stands in line for room behind a task that needs both permits of its group. The check of the wait may have been
// before that task joined the line, so `holder`, which waits for the submitter of `target`, must give its permit back.
class ACostlyTaskInFront final : public GroupScenario {
 public:
  ACostlyTaskInFront() : GroupScenario(1, policy()) {}
  void client(int) override {
    {
      const Uninterrupted all;
      submits_ = executor().submit("s", [this] { return submit_target(); });
      holder_ = executor().submit("g", [this]() -> Task<void> { (void)co_await submits_; });
      (void)executor().post("g", [] { return sleep(2); });
    }
    submits_now_.wait("the submit of the target");
    auto costly =
        executor().try_submit_for("g", std::chrono::hours(1), TaskOptions{.cost = 2}, [] {});
    require(costly.ok(), "there was no room within an hour");
    executor().drain();
  }

 private:
  static GroupPolicy policy() {
    GroupPolicy policy;
    policy.groups["g"] = {.max_concurrency = 2, .queue_threshold = 0};
    return policy;
  }
  static Task<void> sleep(int seconds) { co_await sleep_for(std::chrono::seconds(seconds)); }
  Task<void> submit_target() {
    co_await sleep(1);  // `holder` waits now
    submits_now_.set();
    auto target = co_await executor().submit_async("g", "target", [] {});
    const bool refused = !target.ok() && target.error().code == ErrorCode::kWaitCycle;
    require(target.ok() || refused, "refused for another reason");
  }
  Event submits_now_;
  TaskHandle<void> submits_;
  TaskHandle<void> holder_;
};
TEST(ExploreGroupLimits, ACostlyTaskJoinsTheLineInFrontOfOneThatIsWaitedFor) {
  expect_holds<ACostlyTaskInFront>("GroupExecutor");
}

// The queue is full, so the submitter runs its task: but not once shutdown() has returned.
class CallerRunsAgainstShutdown final : public GroupScenario {
 public:
  CallerRunsAgainstShutdown()
      : GroupScenario(2, {.default_group = {.queue_threshold = 0},
                          .rejection = RejectionPolicy::kCallerRuns}) {
    const Uninterrupted setup;
    executor().pause_group("g");
  }
  void client(int number) override {
    if (number == 1) {
      require(executor().shutdown(std::chrono::hours(1)), "a task was still there after an hour");
      is_shut_down_ = true;
      return;
    }
    try {
      (void)executor().post("g", "1", [this] {
        require(!is_shut_down_, "a task ran after shutdown() had returned");
        yield();
      });
    } catch (const Exception& error) {
      require(error.code() == ErrorCode::kShutdown, "refused for another reason");
    }
  }

 private:
  bool is_shut_down_ = false;
};
TEST(ExploreGroupLimits, ACallerRunsNothingAfterShutdown) {
  expect_holds<CallerRunsAgainstShutdown>("GroupExecutor");
}

}  // namespace
}  // namespace keyway::explore
