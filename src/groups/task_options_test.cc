// What a single task may ask for: cost, priority, a time to begin.
#include "keyway/task_options.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// An executor in a simulation, with tasks that take 10 ms of its time and write down when they begin.
class TaskOptionsTest : public ::testing::Test {
 protected:
  TaskHandle<void> submit(const TaskOptions& options, GroupExecutor& executor) {
    return executor.submit("g", options, [this, id = std::string(options.id)]() -> Task<void> {
      began_ += id;
      co_await sleep_for(10ms);
    });
  }
  GroupStats stats() { return executor_.group_stats("g"); }

  SimScheduler sim_;
  std::string began_;
  GroupExecutor executor_{{.groups = {{"g", {.max_concurrency = 4}}}}, sim_};
};

TEST_F(TaskOptionsTest, ATaskTakesAsMuchOfTheLimitAsItCosts) {
  auto a = submit({.id = "a", .cost = 3}, executor_);
  auto b = submit({.id = "b"}, executor_);
  auto c = submit({.id = "c"}, executor_);
  sim_.run_ready();
  EXPECT_EQ(began_, "ab") << "3 and 1 of 4 are taken";
  EXPECT_EQ(stats().running, 2U);
  EXPECT_EQ(stats().waiting, 1U);
  sim_.run_until_idle();
  EXPECT_EQ(began_, "abc");
  EXPECT_EQ(stats().succeeded, 3U);
}

TEST_F(TaskOptionsTest, ATaskThatCostsMoreThanTheLimitRunsAlone) {
  auto a = submit({.id = "a"}, executor_);
  auto b = submit({.id = "b", .cost = 100}, executor_);
  auto c = submit({.id = "c"}, executor_);
  sim_.run_ready();
  EXPECT_EQ(began_, "a");
  sim_.advance(10ms);
  EXPECT_EQ(began_, "ab");
  sim_.advance(10ms);
  EXPECT_EQ(began_, "abc");
}

TEST_F(TaskOptionsTest, ACostOfLessThanOneIsRefused) {
  EXPECT_THROW((void)submit({.id = "a", .cost = 0}, executor_), Exception);
}

TEST(TaskOptionsMessages, NameTheTaskAndItsGroup) {
  GroupExecutor executor({});
  const auto refusal = [&](const TaskOptions& options) {
    try {
      static_cast<void>(executor.submit("k", options, [] {}));
    } catch (const Exception& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_EQ(refusal({.cost = 0}), "the cost of a task of group \"k\" is 0; it must be at least 1");
  EXPECT_EQ(refusal({.id = "x", .cost = 0}),
            "the cost of task \"x\" of group \"k\" is 0; it must be at least 1");
  EXPECT_EQ(refusal({.conflation = Conflation::kKeepOldest}),
            "a task of group \"k\" has no id, so it cannot be conflated; give it one");
  EXPECT_THROW(GroupTask<int>("k", TaskOptions{.cost = 0}, [] { return 1; }), Exception);
}

TEST_F(TaskOptionsTest, WhatACostlyTaskTookComesBackWhenTheLimitHasChangedMeanwhile) {
  auto a = submit({.id = "a", .cost = 4}, executor_);
  sim_.run_ready();
  ASSERT_TRUE(executor_.set_limit("g", 2).ok());
  auto b = submit({.id = "b", .cost = 3}, executor_);
  sim_.advance(10ms);
  EXPECT_EQ(began_, "ab");
  ASSERT_TRUE(executor_.set_limit("g", 5).ok());
  auto c = submit({.id = "c", .cost = 3}, executor_);
  auto d = submit({.id = "d", .cost = 3}, executor_);
  sim_.run_ready();
  EXPECT_EQ(began_, "abc") << "b holds the 2 that it got, c 3 more";
  sim_.run_until_idle();
  EXPECT_EQ(began_, "abcd");
  EXPECT_EQ(stats().running, 0U);
}

TEST_F(TaskOptionsTest, ACostlyTaskThatWaitsForItsOwnGroupGivesAllOfItBackAndGetsItAgain) {
  int inner_saw = 0;
  auto outer = executor_.submit("g", {.id = "outer", .cost = 4}, [&]() -> Task<int> {
    auto inner = executor_.submit("g", "inner", [&] { return 42; });
    inner_saw = (co_await inner).value();
    co_await sleep_for(10ms);
    co_return 1;
  });
  sim_.run_ready();
  EXPECT_EQ(inner_saw, 42);
  auto other = submit({.id = "o"}, executor_);
  sim_.run_ready();
  EXPECT_EQ(began_, "") << "all of the limit is taken again";
  sim_.run_until_idle();
  EXPECT_EQ(outer.join().value(), 1);
  EXPECT_EQ(began_, "o");
}

TEST_F(TaskOptionsTest, AQueueThresholdOfZeroTurnsAwayATaskThatDoesNotFit) {
  GroupExecutor strict({.groups = {{"g", {.max_concurrency = 4, .queue_threshold = 0}}},
                        .rejection = RejectionPolicy::kDiscard},
                       sim_);
  auto a = submit({.id = "a", .cost = 3}, strict);
  auto b = submit({.id = "b", .cost = 2}, strict);
  auto c = submit({.id = "c", .cost = 1}, strict);
  sim_.run_until_idle();
  EXPECT_EQ(began_, "ac");
  EXPECT_EQ(b.join().status, TaskStatus::kRejected);
}

TEST_F(TaskOptionsTest, AHigherPriorityStartsFirstAndEqualOnesInOrder) {
  ASSERT_TRUE(executor_.set_limit("g", 1).ok());
  auto first = submit({.id = "0"}, executor_);
  sim_.run_ready();
  std::vector<TaskHandle<void>> handles;
  for (const auto& [id, priority] : std::vector<std::pair<const char*, int>>{
           {"d", 0}, {"f", -1}, {"a", 9}, {"b", 5}, {"e", 0}, {"c", 5}, {"g", -1}}) {
    handles.push_back(submit({.id = id, .priority = priority}, executor_));
  }
  sim_.run_until_idle();
  EXPECT_EQ(began_, "0abcdefg");
}

TEST_F(TaskOptionsTest, ATaskWithAPriorityCanBeCancelledWhileItWaits) {
  ASSERT_TRUE(executor_.set_limit("g", 1).ok());
  auto first = submit({.id = "0"}, executor_);
  sim_.run_ready();
  auto high = submit({.id = "h", .cost = 2, .priority = 1}, executor_);
  auto low = submit({.id = "l"}, executor_);
  EXPECT_TRUE(high.cancel());
  sim_.run_until_idle();
  EXPECT_EQ(began_, "0l");
  EXPECT_EQ(high.join().status, TaskStatus::kCancelled);
}

TEST_F(TaskOptionsTest, ATaskThatCannotBeginInTimeExpires) {
  struct Listener final : TaskLifecycleListener {
    void on_completed(std::string_view, std::string_view id, const TaskOutcome& outcome) override {
      if (outcome.status == TaskStatus::kExpired) expired += id;
    }
    std::string expired;
  };
  const auto listener = std::make_shared<Listener>();
  GroupExecutor executor({.listener = listener}, sim_);
  auto first = submit({.id = "0"}, executor);
  auto impatient = submit({.id = "i", .start_within = 5ms}, executor);
  auto patient = submit({.id = "p", .start_within = 15ms}, executor);
  sim_.advance(5ms);
  ASSERT_TRUE(impatient.is_done()) << "at once, not when its turn comes";
  const GroupResult<void> result = impatient.join();
  EXPECT_EQ(result.status, TaskStatus::kExpired);
  EXPECT_THROW(std::rethrow_exception(result.error), ExpiredError);
  EXPECT_EQ(executor.group_stats("g").waiting, 1U) << "its place is free";
  sim_.run_until_idle();
  EXPECT_EQ(began_, "0p");
  EXPECT_TRUE(patient.join().ok()) << "the time to begin is no time to end";
  EXPECT_EQ(listener->expired, "i");
  EXPECT_EQ(executor.stats().expired, 1U);
  EXPECT_EQ(executor.stats().cancelled, 0U);
}

TEST_F(TaskOptionsTest, NoTimeAtAllToBeginExpiresAtOnce) {
  auto task = submit({.id = "a", .start_within = 0ms}, executor_);
  sim_.run_until_idle();
  EXPECT_EQ(task.join().status, TaskStatus::kExpired);
}

TEST_F(TaskOptionsTest, ATimeToBeginThatIsTooLongToCountIsNone) {
  auto task = submit({.id = "a", .start_within = Duration::max()}, executor_);
  sim_.run_until_idle();
  EXPECT_TRUE(task.join().ok());
}

TEST_F(TaskOptionsTest, AnExecutorCanBeDestroyedWhileTasksWaitToExpire) {
  auto executor = std::make_unique<GroupExecutor>(GroupPolicy{}, sim_);
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 5; ++i) {
    handles.push_back(submit({.id = "x", .cost = 2, .start_within = 1h}, *executor));
  }
  sim_.run_ready();
  executor.reset();
  for (auto& handle : handles) EXPECT_TRUE(handle.is_done());
  sim_.run_until_idle();  // no timer is left behind
}

TEST(TaskOptionsThreads, ExpiringStartingAndCancellingAtTheSameTimeEndsEveryTaskOnce) {
  GroupExecutor executor({.default_group = {.max_concurrency = 2}});
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 3'000; ++i) {
    handles.push_back(executor.submit("g" + std::to_string(i % 7),
                                      {.id = "t",
                                       .cost = 1 + i % 3,
                                       .priority = i % 4 - 1,
                                       .start_within = std::chrono::microseconds(i % 300)},
                                      [] { return 1; }));
    if (i % 5 == 0) handles[static_cast<std::size_t>(i) / 2].cancel();
  }
  int ran = 0;
  for (auto& handle : handles) ran += handle.join().ok() ? 1 : 0;
  const GroupStats stats = executor.stats();
  EXPECT_EQ(stats.succeeded, static_cast<std::uint64_t>(ran));
  EXPECT_EQ(stats.succeeded + stats.cancelled + stats.expired, handles.size());
}

}  // namespace
}  // namespace keyway
