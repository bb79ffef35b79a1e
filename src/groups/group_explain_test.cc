// Why a group or a task is where it is, and what an executor that observes knows.
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

class ExplainTest : public ::testing::Test {
 protected:
  void make(GroupPolicy policy) {
    executor_ = std::make_unique<GroupExecutor>(std::move(policy), sim_);
  }
  TaskHandle<void> submit(const std::string& group, const std::string& id, Duration time = 1h) {
    return executor_->submit(group, id, [time]() -> Task<void> { co_await sleep_for(time); });
  }
  std::string text(const std::string& group) {
    std::ostringstream out;
    out << executor_->explain(group);
    return out.str();
  }

  SimScheduler sim_;
  std::unique_ptr<GroupExecutor> executor_;
};

TEST_F(ExplainTest, ATaskWithoutAnIdHasTheNameThatItHasElsewhere) {
  make({});
  auto a = submit("p", "");
  auto b = submit("p", "");
  sim_.advance(1s);
  EXPECT_EQ(executor_->explain(a).text(), "a task of group \"p\": runs for 1.0 s");
  EXPECT_TRUE(
      executor_->explain(b).text().starts_with("a task of group \"p\": waits, place 1 of 1"))
      << executor_->explain(b);
}

TEST_F(ExplainTest, NamesTheGroupsLimitAndWhoHoldsIt) {
  make({.groups = {{"vip", {.max_concurrency = 2}}}});
  auto a = submit("vip", "a");
  sim_.advance(1s);
  auto b = submit("vip", "b");
  auto c = submit("vip", "c");
  auto d = submit("vip", "d");
  sim_.advance(1100ms);
  const Explanation why = executor_->explain("vip");
  EXPECT_EQ(why.held_back_by, HeldBackBy::kGroupLimit);
  ASSERT_EQ(why.holders.size(), 2U);
  EXPECT_EQ(why.holders[0].task_id, "a");
  EXPECT_EQ(why.holders[0].runs_for, 2100ms);
  EXPECT_EQ(
      why.text(),
      "2 of 2 running; oldest 2.1 s (a); 2 waiting; goes on when one of the group ends, or with "
      "set_limit()");
  EXPECT_EQ(executor_->explain(d).text(),
            "task \"d\" of group \"vip\": waits, place 2 of 2; 2 of 2 running; oldest 2.1 s (a); 2 "
            "waiting; goes on when one of the group ends, or with set_limit()");
  EXPECT_EQ(executor_->explain(a).text(), "task \"a\" of group \"vip\": runs for 2.1 s");
}

TEST_F(ExplainTest, NamesTheGlobalLimitAndHoldersOfAllGroups) {
  make({.default_group = {.max_concurrency = 2}, .global_max_in_flight = 1});
  auto a = submit("a", "long");
  sim_.run_ready();
  auto b = submit("b", "x");
  sim_.advance(90s);
  EXPECT_EQ(executor_->explain("b").held_back_by, HeldBackBy::kGlobalLimit);
  EXPECT_EQ(
      text("b"),
      "0 of 2 running; oldest 1m 30s (a/long); 1 waiting; the global limit is reached, 1 of 1 "
      "running; goes on when a task of any group ends, or with set_global_limit()");
}

TEST_F(ExplainTest, NamesAPauseAndARate) {
  GroupLimits rated{.max_concurrency = 10};
  rated.rate = RateLimit{.per_second = 2};
  make({.groups = {{"rated", rated}}});
  auto a = submit("rated", "1", 0ms);
  auto b = submit("rated", "2", 0ms);
  sim_.advance(100ms);
  EXPECT_EQ(executor_->explain("rated").held_back_by, HeldBackBy::kRate);
  EXPECT_EQ(text("rated"),
            "0 of 10 running; 1 waiting; too many have started lately, goes on in 400 ms");
  executor_->pause_group("p");
  auto c = submit("p", "1");
  sim_.run_ready();
  EXPECT_EQ(text("p"), "0 of 1 running; 1 waiting; paused, goes on with resume_group()");
  executor_->pause();
  executor_->resume_group("p");
  EXPECT_EQ(text("p"), "0 of 1 running; 1 waiting; all groups are paused, goes on with resume()");
  EXPECT_EQ(executor_->explain("p").held_back_by, HeldBackBy::kPauseOfAll);
}

TEST_F(ExplainTest, NamesTheTaskThatAnotherWaitsFor) {
  make({});
  auto outer = executor_->submit("a", "outer", [&]() -> Task<void> {
    auto inner = submit("b", "inner");
    (void)co_await inner;
  });
  auto behind = submit("a", "behind");
  sim_.advance(1s);
  const Explanation why = executor_->explain(outer);
  EXPECT_EQ(why.held_back_by, HeldBackBy::kOtherTask);
  EXPECT_EQ(
      why.text(),
      "task \"outer\" of group \"a\": runs for 1.0 s; waits for task \"inner\" of group \"b\"");
  const Explanation group = executor_->explain("a");
  EXPECT_EQ(group.holders.front().waits_for, "task \"inner\" of group \"b\"");
  EXPECT_EQ(
      group.text(),
      "1 of 1 running; oldest 1.0 s (outer, which waits for task \"inner\" of group \"b\"); 1 "
      "waiting; goes on when one of the group ends, or with set_limit()");
}

TEST_F(ExplainTest, SaysOfATaskThatHasEndedHow) {
  make({});
  auto task = submit("a", "x", 0ms);
  sim_.run_until_idle();
  EXPECT_EQ(executor_->explain(task).text(), "task \"x\" of group \"a\": success");
  EXPECT_EQ(text("nobody"), "0 of 1 running; 0 waiting");
}

TEST_F(ExplainTest, SaysSoIfATaskWaitsForAPlaceInTheQueue) {
  make({.default_group = {.max_concurrency = 1, .queue_threshold = 0}});
  auto first = submit("g", "1");
  sim_.run_ready();
  auto feeder = executor_->submit("feeder", "f", [&]() -> Task<void> {
    (void)co_await executor_->submit_async("g", {.id = "2"}, [] {});
  });
  sim_.run_ready();
  EXPECT_EQ(executor_->explain(feeder).waits_for, "task \"2\" of group \"g\"");
}

TEST_F(ExplainTest, CountsThePlaceOfTasksWithAPriority) {
  make({});
  auto first = submit("g", "0");
  sim_.run_ready();
  auto low = submit("g", "low");
  auto high = executor_->submit("g", {.id = "high", .cost = 2, .priority = 1}, [] {});
  EXPECT_EQ(executor_->explain(high).position, 1U);
  EXPECT_EQ(executor_->explain(low).position, 2U);
}

TEST_F(ExplainTest, AnExecutorThatObservesKnowsEveryTaskThatRuns) {
  GroupExecutor executor({.observe = true});
  std::string seen;
  auto task = executor.submit("g", "plain", [&] {
    const Explanation why = executor.explain("g");
    for (const auto& holder : why.holders) seen += holder.task_id;
  });
  EXPECT_TRUE(task.join().ok());
  EXPECT_EQ(seen, "plain");
}

TEST_F(ExplainTest, AnExecutorThatObservesKnowsItsBusiestGroupsAndTheirTimes) {
  make({.default_group = {.max_concurrency = 1}, .observe = true});
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 10; ++i) handles.push_back(submit("busy", "t", 10ms));
  for (int i = 0; i < 3; ++i) handles.push_back(submit("calm", "t", 1s));
  sim_.run_until_idle();
  const std::vector<HotGroup> hot = executor_->hot_groups(5);
  ASSERT_EQ(hot.size(), 2U);
  EXPECT_EQ(hot[0].group_key, "busy");
  EXPECT_EQ(hot[0].started, 10U);
  EXPECT_EQ(hot[0].running.count, 10U);
  EXPECT_EQ(hot[0].running.max, 10ms);
  EXPECT_EQ(hot[0].waiting.max, 90ms) << "the last one waited for nine";
  EXPECT_NEAR(static_cast<double>(hot[0].waiting.p50.count()), 40e6, 5e6);
  const auto calm = executor_->group_times("calm");
  ASSERT_TRUE(calm);
  EXPECT_EQ(calm->running.max, 1s);
  EXPECT_FALSE(executor_->group_times("nobody"));
}

TEST_F(ExplainTest, WhatTheCallerRunsHasItsTimesToo) {
  make({.default_group = {.queue_threshold = 0},
        .rejection = RejectionPolicy::kCallerRuns,
        .observe = true});
  auto first = submit("g", "t", 1ms);
  auto by_caller = submit("g", "t", 20ms);
  EXPECT_TRUE(executor_->post("g", [] {}).ok());
  sim_.run_until_idle();
  const auto times = executor_->group_times("g");
  ASSERT_TRUE(times);
  EXPECT_EQ(times->started, 3U);
  EXPECT_EQ(times->waiting.count, 3U);
  EXPECT_EQ(times->running.count, 3U);
  EXPECT_EQ(times->running.max, 20ms);
}

TEST_F(ExplainTest, HotGroupsAreFoundAmongManyInBoundedMemory) {
  make({.observe = true});
  for (int i = 0; i < 40'000; ++i) {
    const std::string group = i % 4 == 0 ? "hot" : "key-" + std::to_string(i);
    ASSERT_TRUE(executor_->post(group, [] {}).ok());
  }
  sim_.run_until_idle();
  const std::vector<HotGroup> hot = executor_->hot_groups(3);
  ASSERT_FALSE(hot.empty());
  EXPECT_EQ(hot[0].group_key, "hot");
  EXPECT_LE(hot[0].started - hot[0].error, 10'000U);
  EXPECT_GE(hot[0].started, 10'000U);
}

TEST_F(ExplainTest, AHandleOfAnotherExecutorIsRefused) {
  make({});
  auto task = submit("g", "t");
  GroupExecutor other({}, sim_);
  EXPECT_THROW((void)other.explain(task), Exception);
}

TEST_F(ExplainTest, AnExecutorThatDoesNotObserveHasNoTimes) {
  make({});
  auto task = submit("g", "t", 0ms);
  sim_.run_until_idle();
  EXPECT_TRUE(executor_->hot_groups(5).empty());
  EXPECT_FALSE(executor_->group_times("g"));
}

}  // namespace
}  // namespace keyway
