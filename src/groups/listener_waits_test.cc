// Waits in listeners, and what they may depend on: each either ends or is refused. In virtual time, so that a hang is a
// task that is not done.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "support/listeners.h"
#include "support/own_process.h"
#include "support/sim_threads.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

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
        b = executor_->submit("g", "b", [&] { (void)x.join(); });
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
    (void)late.join();
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
    if (id == "inner") refused = error_of([&] { (void)waits.join(); });
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

// Waits for "b" when a task of "c" is submitted.
struct DrainsB final : TaskLifecycleListener {
  void on_submitted(std::string_view group, std::string_view) override {
    if (group == "c") executor->drain_group("b");
  }
  GroupExecutor* executor = nullptr;
};

// A task of "d" calls execute_all() with a task of "d", for which it will give its permit back. Before that, its listener
// waits for "b", so a wait of "b" for a task of "d" closes a cycle.
TEST(ListenerWaitsInExecuteAll, ThePermitCountsAsHeldUntilTheWaitBegins) {
  expect_ends([] {
    const auto listener = std::make_shared<DrainsB>();
    SimScheduler sim;
    GroupExecutor executor({.listener = listener}, sim);
    listener->executor = &executor;
    bool refused = false;
    auto of_b = executor.submit("b", "1", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      auto next = executor.submit("d", "3", [] {});
      try {
        (void)co_await next;
      } catch (const Exception& error) {
        refused = error.code() == ErrorCode::kWaitCycle;
      }
    });
    auto of_d = executor.submit("d", "2", [&] {
      std::vector<GroupTask<void>> tasks;
      tasks.emplace_back("d", [] {});
      tasks.emplace_back("c", [] {});
      (void)executor.execute_all(std::move(tasks));
    });
    sim.run_until_idle();
    EXPECT_TRUE(refused);
    EXPECT_TRUE(of_d.is_done());
  });
}

TEST(ListenerWaitsInExecuteAll, AWaitThatEndsIsNotRefused) {
  expect_ends([] {
    const auto listener = std::make_shared<DrainsB>();
    SimScheduler sim;
    GroupExecutor executor({.listener = listener}, sim);
    listener->executor = &executor;
    bool awaited = false;
    auto of_b = executor.submit("b", "1", [&]() -> Task<void> { co_await sleep_for(5ms); });
    auto of_d = executor.submit("d", "2", [&] {
      std::vector<GroupTask<void>> tasks;
      tasks.emplace_back("d", [] {});
      tasks.emplace_back("c", [] {});
      (void)executor.execute_all(std::move(tasks));
    });
    auto of_e = executor.submit("e", "3", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      auto next = executor.submit("d", "4", [] {});
      awaited = (co_await next).ok();
    });
    sim.run_until_idle();
    EXPECT_TRUE(awaited);
    EXPECT_TRUE(of_d.is_done());
  });
}

// Two threads. One drains "c", and has not seen yet that "c" is empty; the other one submits the next task of "c" and
// waits for it.
TEST(ListenerWaitsOnTwoThreads, ADrainThatSawNoTasksDoesNotGoOn) {
  expect_ends([] {
    struct Waits final : TaskLifecycleListener {
      void on_completed(std::string_view, std::string_view id, const TaskOutcome&) override {
        if (id == "drains") executor->drain_group("c");
        if (id != "waits") return;
        std::vector<GroupTask<void>> tasks;
        tasks.emplace_back("c", [] {});
        try {
          (void)executor->execute_all(std::move(tasks));
        } catch (const Exception& error) {
          EXPECT_EQ(error.code(), ErrorCode::kNoThread);
        }
      }
      GroupExecutor* executor = nullptr;
    };
    const auto listener = std::make_shared<Waits>();
    SimScheduler sim;
    SimThreads two_threads(sim, 2);
    GroupExecutor executor({.listener = listener}, two_threads);
    listener->executor = &executor;
    auto waits = executor.submit("c", "waits", []() -> Task<void> { co_await sleep_for(1ms); });
    auto drains = executor.submit("a", "drains", [] {});
    sim.run_until_idle();
    EXPECT_TRUE(waits.is_done());
    EXPECT_TRUE(drains.is_done());
  });
}

// Two threads. When the tasks of the call have ended and its listener still runs, another task takes the second thread and
// waits for the caller: so the caller must not give permits back, for its return would need a thread.
TEST(ListenerWaitsOnTwoThreads, ExecuteAllGivesNothingBackForTasksThatAreDone) {
  for (const int global_limit : {kUnlimited, 3}) {
    expect_ends([=] {
      struct Lingers final : TaskLifecycleListener {
        void on_rejected(std::string_view, std::string_view, RejectionReason) override {
          (void)slow.join_for(5ms);
        }
        TaskHandle<void> slow;
      };
      const auto listener = std::make_shared<Lingers>();
      SimScheduler sim;
      SimThreads two_threads(sim, 2);
      GroupPolicy policy{.default_group = {.max_concurrency = 2},
                         .global_max_in_flight = global_limit,
                         .listener = listener};
      policy.groups["full"] = {.max_concurrency = 1, .queue_threshold = 0};
      GroupExecutor executor(std::move(policy), two_threads);
      const auto nap = []() -> Task<void> { co_await sleep_for(20ms); };
      listener->slow = executor.submit("slow", nap);
      auto fills = executor.submit("full", nap);
      auto caller = executor.submit("g", "caller", [&] {
        std::vector<GroupTask<void>> tasks;
        tasks.emplace_back("g", [] {});
        tasks.emplace_back("full", [] {});
        EXPECT_EQ(executor.execute_all(std::move(tasks)).size(), 2U);
      });
      auto waits = executor.submit("h", "waits", [&]() -> Task<bool> {
        co_await sleep_for(1ms);
        co_return caller.join().ok();
      });
      sim.run_until_idle();
      EXPECT_TRUE(waits.is_done());
    });
  }
}

// On a pool with a single thread, whose task ends both.
TEST(ListenerWaitsOnOneThread, AListenerMayWaitForACoroutineTaskOfTheSameShutdown) {
  expect_ends([] {
    const auto listener = std::make_shared<EndListener>();
    ThreadPool pool({.threads = 1, .max_threads = 1});
    GroupExecutor executor({.rejection = RejectionPolicy::kDiscard, .listener = listener}, pool);
    const auto coroutine = []() -> Task<void> { co_return; };
    executor.pause_group("g");
    auto first = executor.submit("g", "first", coroutine);
    auto second = executor.submit("g", "second", coroutine);
    TaskStatus of_second{};
    listener->ended = [&](const std::string& id) {
      if (id == "first") of_second = second.join().status;
    };
    EXPECT_TRUE(executor.submit("x", [&] { executor.shutdown_group("g"); }).join().ok());
    EXPECT_TRUE(executor.shutdown(1h));
    EXPECT_EQ(of_second, TaskStatus::kRejected);
  });
}

}  // namespace
}  // namespace keyway
