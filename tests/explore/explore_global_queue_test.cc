// The places of the global queue, and the line of the submits that wait for one.
#include <chrono>
#include <optional>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "support/foreign_coroutine.h"

namespace keyway::explore {
namespace {

constexpr ScenarioOptions kThreeThreads{.threads = 3};

// Two submits with the same id: the newer one may take the place of the older one while that one enters.
class TwoWithOneId final : public GroupScenario {
 public:
  TwoWithOneId() : GroupScenario(2, {.global_max_in_flight = 1, .global_queue_threshold = 1}) {}
  void client(int number) override {
    if (number == 0) {
      blocker_ = executor().submit("blocker", [this] {
        began_.set();
        open_.wait("the end of the blocker");
      });
      began_.wait("the blocker");
      other_.emplace(executor().group("g"));
      ready_.set();
    } else {
      ready_.wait("the blocker");
    }
    handles_[number] = executor().submit(
        "g", TaskOptions{.id = "x", .conflation = Conflation::kKeepNewest}, [] {});
  }
  void finish() override {
    for (TaskHandle<void>& handle : handles_) handle.cancel();
    auto probe = executor().try_submit("probe", [] {});
    require(probe.ok(), "the global queue is empty, and says that it is full");
    other_.reset();
    open_.set();
    (void)blocker_.join();
    (void)std::move(probe).value().join();
  }

 private:
  Event began_, open_, ready_;
  std::optional<GroupHandle> other_;  // keeps the lane
  TaskHandle<void> blocker_, handles_[2];
};
TEST(ExploreGlobalQueue, NoPlaceIsLostWhenATaskTakesThatOfOneThatEnters) {
  expect_holds<TwoWithOneId>("GroupExecutor", kThreeThreads);
}

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
  ForeignCoroutine stand_in_line() {
    (void)co_await executor().submit_async("z", [] {});
  }

  Event open_;
  TaskHandle<void> blocker_, queued_;
};
TEST(ExploreGlobalQueue, ALaterCallDoesNotOvertakeTheLine) {
  expect_holds<ComesBehindTheLine>("GroupExecutor", kThreeThreads);
}

// The only thread of the scheduler submits to a group with room, while a client stands in the line for another group, whose
// own queue is full.
class BesideTheLine final : public GroupScenario {
 public:
  BesideTheLine()
      : GroupScenario(2,
                      {.groups = {{"full", {.max_concurrency = 1, .queue_threshold = 0}}},
                       .global_max_in_flight = 4,
                       .global_queue_threshold = 1000},
                      /*max_threads=*/1) {
    const Uninterrupted setup;
    executor().pause_group("full");
  }
  void client(int number) override {
    if (number == 0) {
      require(!executor().try_submit_for("full", Duration::zero(), [] {}).ok(),
              "a full group took a task");
      return;
    }
    auto task = executor().submit("g", [this] {
      require(executor().try_submit_for("free", Duration::max(), [] {}).ok(),
              "a submit to a group with room was refused");
    });
    (void)task.join();
  }
  void finish() override { executor().resume_group("full"); }
};
TEST(ExploreGlobalQueue, ACallForAnotherGroupDoesNotWaitForTheLine) {
  expect_holds<BesideTheLine>("GroupExecutor", kThreeThreads);
}

}  // namespace
}  // namespace keyway::explore
