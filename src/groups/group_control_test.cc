// What can be changed while an executor runs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/jobs.h"
#include "support/limit_oracle.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// An executor in a simulation, with tasks that take 10 ms of its time.
class GroupControl : public ::testing::Test {
 protected:
  void make(GroupPolicy policy) {
    executor_ = std::make_unique<GroupExecutor>(std::move(policy), sim_);
  }
  void submit(const std::string& group, int count = 1) {
    for (int i = 0; i < count; ++i) {
      handles_.push_back(executor_->submit(group, std::to_string(handles_.size()),
                                           []() -> Task<void> { co_await sleep_for(10ms); }));
    }
  }
  std::uint64_t running(const std::string& group) { return executor_->group_stats(group).running; }
  std::uint64_t waiting(const std::string& group) { return executor_->group_stats(group).waiting; }

  SimScheduler sim_;
  std::unique_ptr<GroupExecutor> executor_;
  std::vector<TaskHandle<void>> handles_;
};

TEST_F(GroupControl, ALimitThatIsRaisedLetsMoreTasksBeginAtOnce) {
  make({});
  submit("a", 5);
  sim_.run_ready();
  EXPECT_EQ(running("a"), 1U);
  EXPECT_TRUE(executor_->set_limit("a", 3).ok());
  sim_.run_ready();
  EXPECT_EQ(running("a"), 3U);
}

TEST_F(GroupControl, ALimitThatIsLoweredHoldsAsTasksEndAndDisturbsNone) {
  make({.groups = {{"a", {.max_concurrency = 4}}}});
  submit("a", 8);
  sim_.run_ready();
  EXPECT_EQ(running("a"), 4U);
  EXPECT_TRUE(executor_->set_limit("a", 1).ok());
  sim_.run_ready();
  EXPECT_EQ(running("a"), 4U) << "those that run go on";
  sim_.advance(10ms);
  EXPECT_EQ(running("a"), 1U);
  sim_.run_until_idle();
  for (TaskHandle<void>& handle : handles_) EXPECT_TRUE(handle.join().ok());
}

TEST_F(GroupControl, ALimitMayBeSetBeforeTheFirstTaskAndStaysAfterTheLast) {
  make({});
  EXPECT_TRUE(executor_->set_limit("a", 2).ok());
  for (int round = 0; round < 2; ++round) {
    submit("a", 3);
    sim_.run_ready();
    EXPECT_EQ(running("a"), 2U);
    sim_.run_until_idle();
    // More keys than are kept warm: the group's own lane is freed.
    for (int i = 0; i < 10'000; ++i) {
      ASSERT_TRUE(executor_->post("key-" + std::to_string(i), [] {}).ok());
    }
    sim_.run_until_idle();
  }
}

TEST_F(GroupControl, WhatIsNotGivenStaysAsItWas) {
  make({.groups = {{"a", {.max_concurrency = 2, .queue_threshold = 1}}}});
  EXPECT_TRUE(executor_->set_limit("a", 1).ok());
  submit("a", 3);
  EXPECT_TRUE(handles_[2].is_done()) << "one runs, one waits: the queue is full";
  EXPECT_TRUE(executor_->set_limits("a", {.queue_threshold = 5}).ok());
  submit("a", 3);
  sim_.run_ready();
  EXPECT_EQ(running("a"), 1U);
  EXPECT_EQ(waiting("a"), 4U);
}

TEST_F(GroupControl, EvictingAGroupForgetsTheLimitThatWasSet) {
  make({.default_group = {.max_concurrency = 3}});
  EXPECT_TRUE(executor_->set_limit("a", 1).ok());
  executor_->evict_group("a");
  submit("a", 5);
  sim_.run_ready();
  EXPECT_EQ(running("a"), 3U);
}

TEST_F(GroupControl, ALimitOutOfRangeIsRefusedByName) {
  make({});
  const Result<void> refused = executor_->set_limit("vip", 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "max_concurrency of group \"vip\" is 0; it must be at least 1");
  EXPECT_FALSE(executor_->set_limits("vip", {.queue_threshold = -1}).ok());
  EXPECT_THROW((void)executor_->set_limit("", 1), Exception);
}

TEST_F(GroupControl, TheGlobalLimitGoesUpAtOnceAndDownAsTasksEnd) {
  make({.default_group = {.max_concurrency = 10}, .global_max_in_flight = 2});
  submit("a", 6);
  submit("b", 6);
  sim_.run_ready();
  EXPECT_EQ(executor_->stats().running, 2U);
  EXPECT_TRUE(executor_->set_global_limit(6).ok());
  sim_.run_ready();
  EXPECT_EQ(executor_->stats().running, 6U);
  EXPECT_TRUE(executor_->set_global_limit(1).ok());
  sim_.advance(10ms);
  EXPECT_EQ(executor_->stats().running, 1U);
  sim_.run_until_idle();
  EXPECT_EQ(executor_->stats().succeeded, 12U);
}

TEST_F(GroupControl, AGlobalLimitThatGoesUpStartsAsManyGroupsAsItAllows) {
  make({.default_group = {.max_concurrency = 1}, .global_max_in_flight = 1});
  for (const char* group : {"a", "b", "c", "d", "e"}) submit(group, 1);
  sim_.run_ready();
  EXPECT_EQ(executor_->stats().running, 1U);
  EXPECT_TRUE(executor_->set_global_limit(4).ok());
  sim_.run_ready();
  EXPECT_EQ(executor_->stats().running, 4U);
  sim_.run_until_idle();
  EXPECT_EQ(executor_->stats().succeeded, 5U);
}

TEST_F(GroupControl, AGlobalLimitCannotBeSetWhereNobodyCounts) {
  make({});
  const Result<void> refused = executor_->set_global_limit(4);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("global_max_in_flight"), std::string::npos);
  make({.global_max_in_flight = 4});
  EXPECT_FALSE(executor_->set_global_limit(0).ok());
}

TEST_F(GroupControl, APausedGroupTakesTasksInAndBeginsNone) {
  make({});
  submit("a", 1);
  sim_.run_ready();
  executor_->pause_group("a");
  executor_->pause_group("a");
  submit("a", 2);
  submit("b", 1);
  sim_.run_until_idle();
  EXPECT_TRUE(handles_[0].is_done()) << "what ran goes on";
  EXPECT_TRUE(handles_[3].is_done()) << "the others too";
  EXPECT_EQ(waiting("a"), 2U);
  EXPECT_EQ(running("a"), 0U);
  executor_->resume_group("a");
  sim_.run_until_idle();
  EXPECT_TRUE(handles_[1].is_done() && handles_[2].is_done());
  executor_->resume_group("a");  // nothing to do
}

TEST_F(GroupControl, AGroupMayBePausedBeforeItHasTasks) {
  make({});
  executor_->pause_group("a");
  submit("a", 1);
  sim_.run_until_idle();
  EXPECT_EQ(waiting("a"), 1U);
  EXPECT_TRUE(handles_[0].cancel());
  EXPECT_TRUE(executor_->active_group_keys().empty());
  executor_->resume_group("a");
  submit("a", 1);
  sim_.run_until_idle();
  EXPECT_TRUE(handles_[1].join().ok());
}

TEST_F(GroupControl, APausedGroupHoldsBackNoMoreThanItsQueueThreshold) {
  make({.default_group = {.max_concurrency = 2, .queue_threshold = 3},
        .rejection = RejectionPolicy::kDiscard});
  executor_->pause_group("a");
  submit("a", 5);
  EXPECT_EQ(waiting("a"), 3U);
  EXPECT_EQ(executor_->group_stats("a").rejected, 2U);
}

TEST_F(GroupControl, WhileAllIsPausedNothingBegins) {
  make({.default_group = {.max_concurrency = 2}});
  submit("a", 4);
  submit("b", 1);
  sim_.run_ready();
  executor_->pause();
  submit("c", 1);
  sim_.run_until_idle();
  EXPECT_EQ(executor_->stats().succeeded, 3U);
  EXPECT_EQ(executor_->stats().waiting, 3U);
  executor_->resume();
  sim_.run_until_idle();
  EXPECT_EQ(executor_->stats().succeeded, 6U);
}

// The one that waits has begun before; if it could not come back, it would be cut in two.
TEST_F(GroupControl, ATaskThatWaitsForAnotherComesBackIntoAPausedGroup) {
  for (const bool all : {false, true}) {
    make({});
    auto outer = executor_->submit("a", "outer", [this]() -> Task<int> {
      auto inner = executor_->submit("a", "inner", []() -> Task<int> {
        co_await sleep_for(10ms);
        co_return 7;
      });
      co_return (co_await inner).value();
    });
    sim_.run_ready();
    all ? executor_->pause() : executor_->pause_group("a");
    submit("a", 1);
    sim_.run_until_idle();
    ASSERT_TRUE(outer.is_done()) << (all ? "all paused" : "the group paused");
    EXPECT_EQ(outer.join().value(), 7);
    EXPECT_EQ(waiting("a"), 1U);
    executor_.reset();
    handles_.clear();
  }
}

// A lane that has been served by the gate, and is then held by a pause, must not keep the global permit.
TEST_F(GroupControl, ATaskThatBeganBeforeAPauseComesBackThroughTheGate) {
  make({.global_max_in_flight = 1});
  auto outer = executor_->submit("a", "outer", [this]() -> Task<int> {
    auto inner = executor_->submit("b", "inner", []() -> Task<int> {
      co_await sleep_for(10ms);
      co_return 7;
    });
    co_return (co_await inner).value();
  });
  sim_.advance(1ms);  // inner runs and has the permit; outer waits
  submit("c", 1);     // stands in line at the gate
  sim_.run_ready();
  executor_->pause();
  sim_.run_until_idle();
  ASSERT_TRUE(outer.is_done());
  EXPECT_EQ(outer.join().value(), 7);
  EXPECT_EQ(running("c"), 0U);
  executor_->resume();
  sim_.run_until_idle();
  EXPECT_TRUE(handles_.back().join().ok());
}

TEST_F(GroupControl, DrainDoesNotWaitForAPausedGroupWithoutTasks) {
  make({});
  executor_->pause();
  submit("a", 1);
  sim_.run_until_idle();  // its turn is held
  EXPECT_TRUE(handles_.back().cancel());
  EXPECT_TRUE(executor_->drain());
  EXPECT_TRUE(executor_->drain_group("a"));
}

// ThreadSanitizer sees it if resume() does not order them.
TEST(GroupControlThreads, WritesBeforeResumeAreSeenByTasksThatBegin) {
  GroupExecutor executor({});
  for (int i = 0; i < 200; ++i) {
    int written = 0;
    executor.pause();
    auto handle = executor.submit("g", [&] { return written; });
    auto other = executor.submit("h", [&] { return written; });
    written = 1;
    executor.resume();
    EXPECT_EQ(handle.join().value(), 1);
    EXPECT_EQ(other.join().value(), 1);
  }
}

TEST_F(GroupControl, DrainWaitsUntilTheLastTaskHasEnded) {
  make({});
  submit("a", 3);
  submit("b", 1);
  const TimePoint before = sim_.now();
  EXPECT_TRUE(executor_->drain());
  EXPECT_EQ(sim_.now() - before, 30ms);
  EXPECT_EQ(executor_->stats().succeeded, 4U);
  submit("a", 1);  // it is not shut down
  EXPECT_TRUE(executor_->drain());
  EXPECT_TRUE(handles_.back().join().ok());
}

TEST_F(GroupControl, DrainingAGroupDoesNotWaitForOthers) {
  make({});
  submit("a", 1);
  submit("b", 5);
  EXPECT_TRUE(executor_->drain_group("a"));
  EXPECT_TRUE(executor_->drain_group("never used"));
  EXPECT_TRUE(handles_[0].is_done());
  EXPECT_FALSE(handles_.back().is_done());
}

// A listener that runs while a waiting task is cancelled: the group has no tasks any more, so its drain is over, and the
// listener can wait for that.
class WaitsForTheDrain final : public TaskLifecycleListener {
 public:
  void on_completed(std::string_view group, std::string_view, const TaskOutcome&) override {
    if (group == "g") ended_before_listener = drain.join().value();
  }
  void on_rejected(std::string_view group, std::string_view, RejectionReason) override {
    if (group == "g") ended_before_listener = drain.join().value();
  }
  TaskHandle<bool> drain;
  bool ended_before_listener = false;
};

void expect_drain_ends_before_listener(
    const std::function<void(GroupExecutor&, TaskHandle<void>&)>& end) {
  SimScheduler sim;
  const auto listener = std::make_shared<WaitsForTheDrain>();
  GroupExecutor executor({.listener = listener}, sim);
  GroupExecutor other({}, sim);
  executor.pause_group("g");
  auto task = executor.submit("g", "1", [] {});
  listener->drain = other.submit("d", [&] { return executor.drain_group("g"); });
  sim.run_ready();
  end(executor, task);
  EXPECT_TRUE(listener->ended_before_listener);
  sim.run_until_idle();
}

TEST(GroupDrain, OfAGroupIsOverWhenItsLastTaskIsCancelled) {
  expect_drain_ends_before_listener(
      [](GroupExecutor&, TaskHandle<void>& task) { EXPECT_TRUE(task.cancel()); });
}

TEST(GroupDrain, OfAGroupIsOverWhenTheGroupIsShutDown) {
  expect_drain_ends_before_listener(
      [](GroupExecutor& executor, TaskHandle<void>&) { executor.shutdown_group("g"); });
}

TEST_F(GroupControl, DrainSaysWhenTheTimeIsOver) {
  make({});
  executor_->pause_group("a");
  submit("a", 1);
  EXPECT_FALSE(executor_->drain_group("a", 5ms));
  EXPECT_FALSE(executor_->drain(5ms));
  executor_->resume_group("a");
  EXPECT_TRUE(executor_->drain_group("a", 1h));
}

TEST_F(GroupControl, ATaskCannotWaitForItsOwnEnd) {
  make({});
  auto all = executor_->submit("a", "1", [this] { return executor_->drain(); });
  auto own = executor_->submit("a", "2", [this] { return executor_->drain_group("a"); });
  auto other = executor_->submit("a", "3", [this] { return executor_->drain_group("b"); });
  sim_.run_until_idle();
  EXPECT_THROW(all.join().value(), Exception);
  EXPECT_THROW(own.join().value(), Exception);
  EXPECT_TRUE(other.join().value());
}

TEST_F(GroupControl, APausedExecutorEndsLikeAnyOther) {
  make({});
  executor_->pause_group("a");
  executor_->pause();
  submit("a", 2);
  submit("b", 2);
  sim_.run_until_idle();
  EXPECT_FALSE(executor_->shutdown(5ms)) << "they could not finish";
  executor_.reset();
  for (TaskHandle<void>& handle : handles_) EXPECT_TRUE(handle.is_done());
}

// "waits" comes back to its group after "pauses" has paused it, while the executor is being destroyed.
TEST_F(GroupControl, AGroupThatIsPausedWhileTheExecutorEndsHoldsNothingBack) {
  expect_ends([&] {
    for (const bool all : {false, true}) {
      make({.groups = {{"a", {.max_concurrency = 2}}}});
      GroupExecutor& executor = *executor_;
      TaskHandle<void> pauses = executor.submit("a", "pauses", [&]() -> Task<void> {
        try {
          co_await sleep_for(1h);  // until the executor ends
        } catch (const Exception&) {
        }
        all ? executor.pause() : executor.pause_group("a");
      });
      auto waits = executor.submit("a", "waits", [&] { (void)pauses.join(); });
      sim_.run_ready();
      executor_.reset();
      EXPECT_TRUE(waits.is_done());
    }
  });
}

// ---- with threads

// A change every millisecond. KEYWAY_LIMIT_CHANGES=10000 lets it go on for ten seconds.
TEST(GroupControlThreads, ALimitThatChangesAllTheTimeIsNeverExceeded) {
  const char* asked = std::getenv("KEYWAY_LIMIT_CHANGES");
  const int changes = asked != nullptr ? std::atoi(asked) : 1000;
  constexpr int kInside = 32;  // tasks that wait or run: each phase of the limit is soon reached
  GroupExecutor executor({.default_group = {.max_concurrency = 4}});
  LimitOracle oracle(4);
  std::atomic<bool> stop{false};
  std::atomic<int> inside{0};
  std::vector<std::jthread> submitters;
  for (int i = 0; i < 2; ++i) {
    submitters.emplace_back([&] {
      while (!stop) {
        if (inside >= kInside) {
          std::this_thread::yield();
          continue;
        }
        ++inside;
        const auto task = [&, number = oracle.next_number()] {
          oracle.begin(number);
          std::this_thread::yield();
          oracle.end();
          --inside;
        };
        EXPECT_TRUE(executor.post("a", task).ok());
      }
    });
  }
  std::mt19937 random(1);  // NOLINT: the same every time
  for (int change = 0; change < changes; ++change) {
    const auto limit = static_cast<std::uint32_t>(1 + random() % 8);
    oracle.change(limit, [&] { EXPECT_TRUE(executor.set_limit("a", static_cast<int>(limit))); });
    const std::uint64_t enough = oracle.judged() + 10;
    const auto end = std::chrono::steady_clock::now() + 1ms;
    EXPECT_TRUE(eventually(
        [&] { return oracle.judged() >= enough && std::chrono::steady_clock::now() >= end; }));
  }
  stop = true;
  submitters.clear();
  EXPECT_TRUE(executor.drain(1h));
  EXPECT_EQ(oracle.exceeded(), 0U) << "of " << oracle.judged() << " tasks";
  EXPECT_EQ(executor.stats().failed, 0U);
}

TEST(GroupControlThreads, ALimitThatHasChangedIsReached) {
  GroupExecutor executor({.default_group = {.max_concurrency = 4}});
  for (const int limit : {1, 8, 2, 5, 3}) {
    ASSERT_TRUE(executor.set_limit("a", limit).ok());
    std::atomic<int> inside{0};
    std::counting_semaphore<> all_are_inside(0);
    std::vector<TaskHandle<bool>> handles;
    for (int i = 0; i < limit; ++i) {
      handles.push_back(executor.submit("a", "1", [&] {
        if (++inside == limit) all_are_inside.release(limit);
        return all_are_inside.try_acquire_for(1min);  // blocks, so that the pool grows
      }));
    }
    for (auto& handle : handles) EXPECT_TRUE(handle.join().value()) << "limit " << limit;
  }
}

TEST(GroupControlThreads, PausingAndResumingLosesNobody) {
  constexpr int kTasks = 20'000;
  constexpr int kMaxPauses = 20'000;  // so that it ends soon on a busy machine too
  GroupExecutor executor({.default_group = {.max_concurrency = 2}});
  std::atomic<bool> stop{false};
  std::atomic<int> ran{0};
  std::thread pauser([&] {
    for (int i = 0; i < kMaxPauses && !stop; ++i) {
      i % 3 == 0 ? executor.pause() : executor.pause_group("key-1");
      std::this_thread::yield();
      executor.resume();
      executor.resume_group("key-1");
    }
  });
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(executor.post("key-" + std::to_string(i % 5), [&] { ++ran; }).ok());
  }
  EXPECT_TRUE(executor.drain(1h));
  stop = true;
  pauser.join();
  EXPECT_TRUE(executor.drain(1h));
  EXPECT_EQ(ran, kTasks);
}

}  // namespace
}  // namespace keyway
