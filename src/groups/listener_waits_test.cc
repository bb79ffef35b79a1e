// Waits in listeners, and what they may depend on: each either ends or is refused. In virtual time, so that a hang is a
// task that is not done.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/listeners.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

class ListenerWaits : public ListenedExecutor<EndListener> {
 protected:
  // The code of the error that `call` throws; nullopt if it throws none.
  template <class F>
  static std::optional<ErrorCode> error_of(F call) {
    try {
      call();
    } catch (const Exception& error) {
      return error.code();
    }
    return std::nullopt;
  }
  // Runs `call` on a stack of its own, as a thread outside of tasks.
  struct Visit final : Runnable {
    void run(Turn&) override { call(); }
    std::function<void()> call;
  };
  void visit(std::function<void()> call) {
    visit_.call = std::move(call);
    sim_.post(visit_);
  }

  Visit visit_;
};

TEST_F(ListenerWaits, ADrainIsRefusedIfAnotherListenerWaitsForItsTask) {
  std::optional<ErrorCode> refused;
  bool joined = false;
  listener_->ended = [&](const std::string& id) {
    if (id == "a") joined = executor_->submit("g", "b", [] {}).join().ok();
    if (id == "b") refused = error_of([&] { executor_->drain(); });
  };
  make();
  auto a = executor_->submit("g", "a", [] {});
  sim_.run_until_idle();
  EXPECT_TRUE(a.is_done());
  EXPECT_TRUE(joined);
  EXPECT_EQ(refused, ErrorCode::kWaitCycle);
}

TEST_F(ListenerWaits, OnCompletedOfAnExpiredTaskMayDrain) {
  bool drained = false;
  listener_->ended = [&](const std::string& id) {
    if (id == "late") drained = executor_->drain();
  };
  make();
  executor_->pause_group("g");
  auto late = executor_->submit("g", {.id = "late", .start_within = 1ms}, [] {});
  sim_.run_until_idle();
  EXPECT_TRUE(late.is_done());
  EXPECT_TRUE(drained);
}

TEST_F(ListenerWaits, OnCompletedOfATaskThatItsSubmitterRanMayDrain) {
  bool drained = false;
  listener_->ended = [&](const std::string& id) {
    if (id == "b") drained = executor_->drain();
  };
  make({.default_group = {.max_concurrency = 1, .queue_threshold = 0},
        .rejection = RejectionPolicy::kCallerRuns});
  auto a = executor_->submit("g", "a", []() -> Task<void> { co_await sleep_for(1ms); });
  TaskHandle<void> b;
  visit([&] { b = executor_->submit("g", "b", [] {}); });
  sim_.run_until_idle();
  EXPECT_TRUE(a.is_done());
  EXPECT_TRUE(b.is_done());
  EXPECT_TRUE(drained);
}

// A drain waits for tasks that their submitters run. Such a task waits for "x", whose listener drains.
TEST_F(ListenerWaits, ADrainIsRefusedIfATaskThatItsSubmitterRunsWaitsForTheListener) {
  for (const bool blocks : {false, true}) {
    std::optional<ErrorCode> refused;
    TaskHandle<void> x;
    listener_->ended = [&](const std::string& id) {
      if (id == "x") refused = error_of([&] { executor_->drain(); });
    };
    make({.groups = {{"g", {.max_concurrency = 1, .queue_threshold = 0}}},
          .rejection = RejectionPolicy::kCallerRuns});
    x = executor_->submit("x", "x", []() -> Task<void> { co_await sleep_for(2ms); });
    auto a = executor_->submit("g", "a", []() -> Task<void> { co_await sleep_for(1ms); });
    TaskHandle<void> b;
    visit([&] {
      if (blocks) {
        b = executor_->submit("g", "b", [&] { x.join(); });
      } else {
        b = executor_->submit("g", "b", [&]() -> Task<void> { (void)co_await x; });
      }
    });
    sim_.run_until_idle();
    EXPECT_TRUE(b.is_done()) << blocks;
    EXPECT_EQ(refused, ErrorCode::kWaitCycle) << blocks;
    executor_.reset();
  }
}

// "drains" holds a permit of "d" that "late" comes to need when the limit goes down, and "a" waits for "late".
TEST_F(ListenerWaits, ATaskThatDrainsAGroupGivesItsPermitUpWhenTheLimitGoesDown) {
  make({.groups = {{"d", {.max_concurrency = 2}}}});
  TaskHandle<void> late;
  bool drained = false;
  auto holds = executor_->submit("d", "holds", []() -> Task<void> { co_await sleep_for(1ms); });
  auto a = executor_->submit("a", "a", [&] {
    late = executor_->submit("d", "late", [] {});
    late.join();
  });
  auto drains = executor_->submit("d", "drains", [&] { drained = executor_->drain_group("a"); });
  sim_.advance(100us);
  EXPECT_TRUE(executor_->set_limit("d", 1).ok());
  sim_.run_until_idle();
  EXPECT_TRUE(late.is_done());
  EXPECT_TRUE(a.is_done());
  EXPECT_TRUE(drained);
  EXPECT_TRUE(drains.is_done());
}

// It gives its global permit back meanwhile.
TEST_F(ListenerWaits, ATaskMayDrainAnotherGroupUnderTheGlobalLimit) {
  make({.global_max_in_flight = 1});
  bool drained = false;
  auto a = executor_->submit("a", "a", [&] { drained = executor_->drain_group("b"); });
  auto b = executor_->submit("b", "b", [] {});
  sim_.run_until_idle();
  EXPECT_TRUE(a.is_done());
  EXPECT_TRUE(b.is_done());
  EXPECT_TRUE(drained);
}

// The listener of "inner" runs on the stack of "ends it", and "waits" waits for "inner".
TEST_F(ListenerWaits, AJoinIsRefusedIfItsTaskWaitsForTheOneThatEnds) {
  TaskHandle<void> waits;
  std::optional<ErrorCode> refused;
  listener_->ended = [&](const std::string& id) {
    if (id == "inner") refused = error_of([&] { waits.join(); });
  };
  make();
  executor_->pause_group("paused");
  waits = executor_->submit("a", "waits", [&]() -> Task<void> {
    auto inner = executor_->submit("paused", "inner", [] {});
    try {
      (void)co_await inner;
    } catch (const RejectedError&) {
    }
  });
  sim_.run_until_idle();
  auto ends_it = executor_->submit("b", "ends it", [&] { executor_->shutdown_group("paused"); });
  sim_.run_until_idle();
  EXPECT_TRUE(waits.is_done());
  EXPECT_TRUE(ends_it.is_done());
  EXPECT_EQ(refused, ErrorCode::kWaitCycle);
}

TEST_F(ListenerWaits, AShutdownDoesNotWaitForATaskThatWaitsForTheListener) {
  std::optional<bool> in_time;
  listener_->ended = [&](const std::string& id) {
    if (id == "a") in_time = executor_->shutdown(1ms);
  };
  make();
  TaskHandle<void> a = executor_->submit("a", "a", []() -> Task<void> { co_await sleep_for(1ms); });
  auto waits = executor_->submit("b", "waits", [&] { return a.join().ok(); });
  sim_.run_until_idle();
  EXPECT_TRUE(waits.is_done());
  EXPECT_EQ(in_time, false);
}

// Its operation must not refer to that of its submitter, which is gone.
TEST_F(ListenerWaits, ACoroutineThatItsSubmitterRanMayOutliveIt) {
  bool joined = false;
  listener_->ended = [&](const std::string& id) {
    if (id == "b") joined = executor_->submit("h", "c", [] {}).join().ok();
  };
  make({.groups = {{"g", {.max_concurrency = 1, .queue_threshold = 0}}},
        .rejection = RejectionPolicy::kCallerRuns});
  auto a = executor_->submit("g", "a", []() -> Task<void> { co_await sleep_for(5ms); });
  TaskHandle<void> b;
  auto submits = executor_->submit("h", "submits", [&] {
    b = executor_->submit("g", "b", []() -> Task<void> { co_await sleep_for(1ms); });
  });
  sim_.run_until_idle();
  EXPECT_TRUE(b.is_done());
  EXPECT_TRUE(joined);
}

}  // namespace
}  // namespace keyway
