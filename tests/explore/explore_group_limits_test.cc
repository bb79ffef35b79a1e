// Limits of a GroupExecutor that change, and queues that are full, while other threads submit, pause and shut down.
#include <chrono>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"

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
