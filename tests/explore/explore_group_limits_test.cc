// Limits of a GroupExecutor that change, and queues that are full, while other threads submit, pause and shut down.
#include <chrono>

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
