// The line of the submits that wait for a place of the global queue.
#include <chrono>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "support/foreign_coroutine.h"

namespace keyway::explore {
namespace {

constexpr ScenarioOptions kThreeThreads{.threads = 3};

// A submit waits in the line for the only place of the global queue, and another one comes when the place becomes free.
class ComesBehindTheLine final : public GroupScenario {
 public:
  ComesBehindTheLine()
      : GroupScenario(2, {.global_max_in_flight = 1, .global_queue_threshold = 1}) {
    const Uninterrupted setup;
    blocker_ = executor().submit("blocker", [this] { open_.wait("the end of the blocker"); });
    queued_ = executor().submit("queued", [] {});
    stand_in_line();
  }
  void client(int number) override {
    if (number == 0) {
      queued_.cancel();
      return;
    }
    auto late = executor().try_submit_for("a", Duration::zero(), [] {});
    require(!late.ok(), "a later call had the place that the first in line waited for");
  }
  void finish() override {
    require(executor().waiting_for_room() == 0, "the first in line did not get the place");
    open_.set();
    executor().drain();
  }

 private:
  ForeignCoroutine stand_in_line() { (void)co_await executor().submit_async("z", [] {}); }

  Event open_;
  TaskHandle<void> blocker_, queued_;
};
TEST(ExploreGlobalQueue, ALaterCallDoesNotOvertakeTheLine) {
  expect_holds<ComesBehindTheLine>("GroupExecutor", kThreeThreads);
}

}  // namespace
}  // namespace keyway::explore
