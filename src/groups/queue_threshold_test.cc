// What happens when a queue is full: thresholds, rejection policies, handlers.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <latch>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/future.h"
#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

// A task that occupies its permits for a virtual second.
Task<int> nap() {
  co_await sleep_for(1s);
  co_return 42;
}

GroupPolicy group_threshold(int threshold, RejectionPolicy rejection = RejectionPolicy::kAbort) {
  return {.default_group = {.queue_threshold = threshold}, .rejection = rejection};
}
// One task at a time, whatever its group.
GroupPolicy global_threshold(int threshold, RejectionPolicy rejection = RejectionPolicy::kAbort) {
  return {.default_group = {.max_concurrency = 10},
          .global_max_in_flight = 1,
          .global_queue_threshold = threshold,
          .rejection = rejection};
}

// An executor in virtual time.
struct Sim {
  explicit Sim(GroupPolicy policy) : executor(std::move(policy), scheduler) {}

  TaskHandle<int> submit(std::string_view group, std::string_view id) {
    return executor.submit(group, id, &nap);
  }
  // Whether a submit is turned away. Such a task is done at once.
  bool full(std::string_view group) {
    TaskHandle<int> handle = submit(group, "probe");
    if (!handle.is_done()) return handle.cancel(), false;
    EXPECT_THROW((void)handle.join(), RejectedError);
    return true;
  }

  SimScheduler scheduler;
  GroupExecutor executor;
};

// Both kinds of threshold must behave alike towards the task that is turned away.
class EitherThreshold : public ::testing::TestWithParam<GroupPolicy (*)(int, RejectionPolicy)> {
 protected:
  static GroupPolicy policy(int threshold, RejectionPolicy rejection) {
    return GetParam()(threshold, rejection);
  }
};
INSTANTIATE_TEST_SUITE_P(, EitherThreshold, ::testing::Values(&group_threshold, &global_threshold),
                         [](const auto& instance) {
                           return instance.index == 0 ? "OfAGroup" : "OfAllGroups";
                         });

TEST_P(EitherThreshold, TasksUpToItWaitAndRun) {
  Sim sim(policy(3, RejectionPolicy::kAbort));
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 4; ++i) handles.push_back(sim.submit("a", std::to_string(i)));
  for (auto& handle : handles) EXPECT_EQ(handle.join().value(), 42);
}

TEST_P(EitherThreshold, AbortThrowsWhenTheTaskIsAwaitedNotWhenItIsSubmitted) {
  Sim sim(policy(1, RejectionPolicy::kAbort));
  auto running = sim.submit("a", "1");
  auto waiting = sim.submit("a", "2");
  auto awaited = sim.submit("a", "3");
  auto joined = sim.submit("a", "4");
  EXPECT_TRUE(awaited.is_done());
  try {
    (void)awaited.await();
    FAIL() << "not rejected";
  } catch (const RejectedError& rejected) {
    EXPECT_EQ(rejected.code(), ErrorCode::kRejected);
    EXPECT_TRUE(rejected.error().retryable);
    EXPECT_NE(std::string(rejected.what()).find("task \"3\" of group \"a\""), std::string::npos);
  }
  EXPECT_THROW((void)joined.join_for(1s), RejectedError);
  EXPECT_TRUE(running.join().ok());
  EXPECT_TRUE(waiting.join().ok());
}

TEST_P(EitherThreshold, DiscardGivesARejectedResult) {
  Sim sim(policy(0, RejectionPolicy::kDiscard));
  auto running = sim.submit("a", "1");
  GroupResult<int> result = sim.submit("a", "2").await();
  EXPECT_EQ(result.status, TaskStatus::kRejected);
  EXPECT_EQ(result.error, nullptr);
  EXPECT_FALSE(result.stored.has());
  EXPECT_EQ(result.duration(), Duration::zero());
  EXPECT_TRUE(running.join().ok());
}

TEST_P(EitherThreshold, CallerRunsRunsTheTaskInSubmit) {
  Sim sim(policy(0, RejectionPolicy::kCallerRuns));
  auto running = sim.submit("a", "1");
  std::thread::id ran_on;
  auto run_here = sim.executor.submit("a", "2", [&] {
    ran_on = std::this_thread::get_id();
    return 42;
  });
  EXPECT_TRUE(run_here.is_done());
  EXPECT_EQ(run_here.join().value(), 42);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_THROW(sim.executor.submit("a", "3", [] { throw 42; }).join().value(), int);
  auto coroutine = sim.submit("a", "4");
  EXPECT_FALSE(coroutine.is_done());
  EXPECT_EQ(coroutine.join().value(), 42);
  EXPECT_TRUE(running.join().ok());
}

TEST_P(EitherThreshold, AHandlerOverridesThePolicy) {
  GroupPolicy with_handler = policy(0, RejectionPolicy::kAbort);
  with_handler.rejection_handler = [](std::string_view key, std::string_view id) {
    EXPECT_EQ(key, "a");
    return id == "mine" ? RejectionPolicy::kCallerRuns : RejectionPolicy::kDiscard;
  };
  Sim sim(std::move(with_handler));
  auto running = sim.submit("a", "running");
  EXPECT_EQ(sim.submit("a", "other").join().status, TaskStatus::kRejected);
  EXPECT_EQ(sim.executor.submit("a", "mine", answer).join().value(), 42);
}

TEST_P(EitherThreshold, WhatAHandlerThrowsReachesWhoeverAwaitsTheTask) {
  GroupPolicy with_handler = policy(0, RejectionPolicy::kDiscard);
  with_handler.rejection_handler = [](std::string_view, std::string_view) -> RejectionPolicy {
    throw std::out_of_range("too many");
  };
  Sim sim(std::move(with_handler));
  auto running = sim.submit("a", "1");
  auto rejected = sim.submit("a", "2");
  EXPECT_TRUE(rejected.is_done());
  EXPECT_THROW((void)rejected.await(), std::out_of_range);
  EXPECT_EQ(sim.executor.post("a", answer).error().code, ErrorCode::kRejected);
  EXPECT_EQ(sim.executor.stats().rejected, 2U);
}

TEST_P(EitherThreshold, APostThatIsTurnedAwayIsAnErrorUnlessTheCallerRunsIt) {
  for (const auto rejection : {RejectionPolicy::kAbort, RejectionPolicy::kDiscard}) {
    Sim sim(policy(0, rejection));
    auto running = sim.submit("a", "1");
    const Result<void> posted = sim.executor.post("a", [] { ADD_FAILURE() << "ran"; });
    ASSERT_FALSE(posted.ok());
    EXPECT_EQ(posted.error().code, ErrorCode::kRejected);
    EXPECT_TRUE(posted.error().retryable);
  }
  Sim sim(policy(0, RejectionPolicy::kCallerRuns));
  auto running = sim.submit("a", "1");
  bool ran = false;
  EXPECT_TRUE(sim.executor.post("a", [&] { ran = true; }).ok());
  EXPECT_TRUE(ran);
}

TEST_P(EitherThreshold, ACancelledWaitingTaskFreesItsSlotAtOnce) {
  Sim sim(policy(2, RejectionPolicy::kAbort));
  auto running = sim.submit("a", "1");
  auto waiting = sim.submit("a", "2");
  auto cancelled = sim.submit("a", "3");
  EXPECT_TRUE(sim.full("a"));
  EXPECT_TRUE(cancelled.cancel());
  EXPECT_FALSE(sim.full("a"));
  auto replacement = sim.submit("a", "4");
  EXPECT_TRUE(sim.full("a"));
  EXPECT_EQ(replacement.join().value(), 42);
}

TEST_P(EitherThreshold, AnExpiredTaskFreesItsSlotAtOnce) {
  Sim sim(policy(2, RejectionPolicy::kAbort));
  auto running = sim.submit("a", "1");
  auto waiting = sim.submit("a", "2");
  auto late = sim.executor.submit("a", {.id = "late", .start_within = 1ms}, answer);
  EXPECT_TRUE(sim.full("a"));
  sim.scheduler.advance(1ms);
  ASSERT_TRUE(late.is_done());
  EXPECT_EQ(late.join().status, TaskStatus::kExpired);
  EXPECT_FALSE(sim.full("a"));
}

TEST_P(EitherThreshold, AShutDownGroupFreesItsSlotsAtOnce) {
  Sim sim(policy(2, RejectionPolicy::kAbort));
  auto running = sim.submit("a", "1");
  sim.scheduler.run_ready();
  auto waiting = sim.submit("a", "2");
  auto another = sim.submit("a", "3");
  EXPECT_TRUE(sim.full("a"));
  sim.executor.shutdown_group("a");
  EXPECT_EQ(waiting.join().status, TaskStatus::kRejected);
  auto next = sim.submit("a", "4");
  EXPECT_EQ(next.join().value(), 42);
}

TEST_P(EitherThreshold, ExecuteAllTurnsAbortIntoRejectedResults) {
  Sim sim(policy(1, RejectionPolicy::kAbort));
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 4; ++i) tasks.emplace_back("a", std::to_string(i), answer);
  const auto results = sim.executor.execute_all(std::move(tasks));
  ASSERT_EQ(results.size(), 4U);
  EXPECT_TRUE(results[0].ok());
  EXPECT_TRUE(results[1].ok());
  EXPECT_EQ(results[2].status, TaskStatus::kRejected);
  EXPECT_EQ(results[3].status, TaskStatus::kRejected);
}

// group_result.h: "kRejected: value no, error null".
TEST_P(EitherThreshold, ARejectedResultOfExecuteAllHasNoError) {
  Sim sim(policy(0, RejectionPolicy::kAbort));
  std::vector<GroupTask<int>> tasks;
  for (int i = 0; i < 2; ++i) tasks.emplace_back("a", std::to_string(i), answer);
  EXPECT_EQ(sim.executor.execute_all(std::move(tasks))[1].error, nullptr);
}

TEST_P(EitherThreshold, AtZeroATaskThatIsAwaitedHasMadeRoomForTheNext) {
  GroupExecutor executor(policy(0, RejectionPolicy::kAbort));
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_NO_THROW((void)executor.submit("a", "1", answer).await()) << "in round " << i;
  }
}

TEST_P(EitherThreshold, AtZeroAFutureThatIsReadyHasMadeRoomForTheNext) {
  GroupExecutor executor(policy(0, RejectionPolicy::kAbort));
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_NO_THROW((void)to_future(executor.submit("a", "1", answer)).get()) << "in round " << i;
  }
}

TEST_P(EitherThreshold, ManySubmittersTogetherGetNoMoreThanTheSlots) {
  std::latch go(1);
  GroupExecutor executor(policy(10, RejectionPolicy::kAbort));
  auto running = executor.submit("a", "held", [&] { go.wait(); });
  std::atomic<int> taken = 0;
  {
    std::vector<std::jthread> submitters;
    for (int i = 0; i < 4; ++i) {
      submitters.emplace_back([&] {
        for (int n = 0; n < 500; ++n) taken += executor.post("a", answer).ok() ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(taken, 10);
  EXPECT_EQ(executor.stats().rejected, 1990U);
  go.count_down();
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_EQ(executor.stats().succeeded, 11U);
}

// ---- the threshold of a group

TEST(QueueThreshold, OfAGroupLeavesOtherGroupsAlone) {
  Sim sim({.groups = {{"a", {.queue_threshold = 0}}, {"b", {.queue_threshold = 1}}}});
  std::vector<TaskHandle<int>> handles;
  for (const char* group : {"a", "b", "b", "c", "c", "c"})
    handles.push_back(sim.submit(group, "1"));
  EXPECT_TRUE(sim.full("a"));
  EXPECT_TRUE(sim.full("b"));
  EXPECT_FALSE(sim.full("c"));
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
}

TEST(QueueThreshold, OfAGroupIsCountedBeyondAllTasksThatMayRun) {
  Sim sim({.default_group = {.max_concurrency = 3, .queue_threshold = 2}});
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(sim.full("a"));
    handles.push_back(sim.submit("a", std::to_string(i)));
  }
  EXPECT_TRUE(sim.full("a"));
  sim.scheduler.run_ready();
  EXPECT_TRUE(sim.full("a"));
  sim.scheduler.advance(1s);
  EXPECT_FALSE(sim.full("a"));
}

TEST(QueueThreshold, OfAGroupCountsTasksThatWaitAtTheBulkhead) {
  Sim sim({.default_group = {.max_concurrency = 5, .max_in_flight = 1, .queue_threshold = 1}});
  auto running = sim.submit("a", "1");
  sim.scheduler.run_ready();
  auto waiting = sim.submit("a", "2");
  EXPECT_TRUE(sim.full("a"));
  EXPECT_TRUE(waiting.join().ok());
}

TEST(QueueThreshold, OfAGroupDoesNotCountTasksThatOnlyTheGlobalLimitHoldsBack) {
  Sim sim(
      {.default_group = {.max_concurrency = 2, .queue_threshold = 0}, .global_max_in_flight = 1});
  auto elsewhere = sim.submit("b", "1");
  sim.scheduler.run_ready();
  auto first = sim.submit("a", "1");
  auto second = sim.submit("a", "2");
  EXPECT_TRUE(sim.full("a"));
  EXPECT_TRUE(first.join().ok());
  EXPECT_TRUE(second.join().ok());
}

// ---- the global threshold

TEST(QueueThreshold, OfAllGroupsCountsWhatWaitsInAnyOfThem) {
  Sim sim(global_threshold(2));
  auto running = sim.submit("a", "1");
  auto second = sim.submit("b", "1");
  auto third = sim.submit("c", "1");
  for (const char* group : {"a", "b", "c", "d"}) EXPECT_TRUE(sim.full(group));
  EXPECT_TRUE(running.join().ok());
  sim.scheduler.run_ready();
  EXPECT_FALSE(sim.full("d"));
  EXPECT_TRUE(second.join().ok());
  EXPECT_TRUE(third.join().ok());
}

TEST(QueueThreshold, OfAllGroupsDoesNotCountTasksThatTheirOwnGroupHoldsBack) {
  Sim sim({.global_max_in_flight = 2, .global_queue_threshold = 0});
  auto running = sim.submit("a", "1");
  std::vector<TaskHandle<int>> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(sim.submit("a", std::to_string(i)));
  EXPECT_FALSE(sim.full("b"));
  auto elsewhere = sim.submit("b", "1");
  EXPECT_TRUE(sim.full("c"));
  for (auto& handle : waiting) EXPECT_TRUE(handle.join().ok());
}

TEST(QueueThreshold, OfAllGroupsMeansNothingWithoutAGlobalLimit) {
  Sim sim({.global_queue_threshold = 0});
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 5; ++i) handles.push_back(sim.submit("a", std::to_string(i)));
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
}

TEST(QueueThreshold, ATaskThatItsGroupTurnsAwayLeavesTheGlobalQueueAsItWas) {
  Sim sim({.groups = {{"a", {.queue_threshold = 0}}},
           .global_max_in_flight = 1,
           .global_queue_threshold = 2});
  auto running = sim.submit("a", "1");
  EXPECT_TRUE(sim.full("a"));
  EXPECT_FALSE(sim.full("b"));
  auto first = sim.submit("b", "1");
  auto second = sim.submit("c", "1");
  EXPECT_TRUE(sim.full("d"));
}

// ---- the thread that submits

TEST(QueueThreshold, CallerRunsHoldsNoPermits) {
  std::latch running(1);
  std::latch go(1);
  GroupExecutor executor({.groups = {{"a", {.queue_threshold = 0}}},
                          .global_max_in_flight = 2,
                          .rejection = RejectionPolicy::kCallerRuns});
  auto first = executor.submit("a", "1", [&] { running.count_down(), go.wait(); });
  running.wait();
  auto by_caller = executor.submit("a", "2", [&] {
    EXPECT_EQ(executor.stats().running, 1U);
    // The second global permit is free for another group, although this task runs.
    return executor.submit("b", "1", answer).join().value();
  });
  EXPECT_EQ(by_caller.join().value(), 42);
  go.count_down();
  EXPECT_TRUE(first.join().ok());
}

TEST(QueueThreshold, AHandlerIsCalledOnTheThreadThatSubmitsAndMayUseTheExecutor) {
  std::latch go(1);
  GroupExecutor* self = nullptr;
  const std::thread::id submitter = std::this_thread::get_id();
  GroupExecutor executor({.groups = {{"a", {.queue_threshold = 0}}},
                          .rejection_handler = [&](std::string_view, std::string_view id) {
                            EXPECT_EQ(std::this_thread::get_id(), submitter);
                            EXPECT_EQ(self->submit("overflow", id, answer).join().value(), 42);
                            return RejectionPolicy::kDiscard;
                          }});
  self = &executor;
  auto running = executor.submit("a", "1", [&] { go.wait(); });
  EXPECT_EQ(executor.submit("a", "2", answer).join().status, TaskStatus::kRejected);
  EXPECT_EQ(executor.group_stats("overflow").succeeded, 1U);
  go.count_down();
}

TEST_P(EitherThreshold, StatsCountATaskThatItsCallerRanAsWhatBecameOfIt) {
  Sim sim(policy(0, RejectionPolicy::kCallerRuns));
  auto running = sim.submit("a", "1");
  EXPECT_TRUE(sim.executor.post("a", answer).ok());
  EXPECT_TRUE(sim.executor.post("a", [] { throw 42; }).ok());
  const GroupStats stats = sim.executor.stats();
  EXPECT_EQ(stats.submitted, 3U);
  EXPECT_EQ(stats.succeeded, 1U);
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.rejected, 0U);
}

TEST_P(EitherThreshold, GroupStatsAgreeWithStatsAboutTasksThatWereTurnedAway) {
  for (const auto rejection : {RejectionPolicy::kDiscard, RejectionPolicy::kCallerRuns}) {
    Sim sim(policy(0, rejection));
    auto running = sim.submit("a", "1");
    (void)sim.executor.post("a", answer);
    const GroupStats all = sim.executor.stats();
    const GroupStats group = sim.executor.group_stats("a");
    EXPECT_EQ(group.submitted, all.submitted);
    EXPECT_EQ(group.succeeded, all.succeeded);
    EXPECT_EQ(group.rejected, all.rejected);
  }
}

// ---- coroutines that their caller runs. A fault here crashes: in a process of its own

TEST(QueueThreshold, ACoroutineThatItsCallerRunsMayAwaitATaskOfItsGroup) {
  expect_ends([] {
    Sim sim(group_threshold(1, RejectionPolicy::kCallerRuns));
    auto running = sim.submit("a", "1");
    auto waiting = sim.submit("a", "2");
    auto by_caller =
        sim.executor.submit("a", "3", [&]() -> Task<int> { co_return (co_await waiting).value(); });
    EXPECT_EQ(by_caller.join().value(), 42);
  });
}

TEST(QueueThreshold, ACoroutineThatItsCallerRunsHasNoGlobalPermitToLend) {
  expect_ends([] {
    Sim sim({.groups = {{"a", {.queue_threshold = 0}}},
             .global_max_in_flight = 1,
             .rejection = RejectionPolicy::kCallerRuns});
    auto running = sim.submit("a", "1");
    auto waiting = sim.submit("b", "1");
    sim.scheduler.run_ready();
    auto by_caller =
        sim.executor.submit("a", "2", [&]() -> Task<int> { co_return (co_await waiting).value(); });
    sim.scheduler.run_ready();
    EXPECT_EQ(sim.executor.stats().running, 1U);
    EXPECT_EQ(by_caller.join().value(), 42);
  });
}

// "holder" waits and keeps its group's permit, so it does not count as able to run. The lower limit makes it give that
// permit back, and from then on the group's one other task is what counts.
TEST(QueueThreshold, OfAllGroupsCountsRightWhenALowerLimitTakesThePermitOfAWaitingTask) {
  Sim sim({.groups = {{"g", {.max_concurrency = 2}}},
           .global_max_in_flight = 3,
           .global_queue_threshold = 0});
  TaskHandle<int> target;
  auto between = sim.executor.submit("h", "between", [&]() -> Task<int> {
    co_await sleep_for(1ms);
    co_return (co_await target).value();
  });
  auto holder = sim.executor.submit("g", "holder",
                                    [&]() -> Task<int> { co_return (co_await between).value(); });
  auto running = sim.submit("g", "running");
  sim.scheduler.run_ready();
  target = sim.executor.submit("g", "target", answer);
  sim.scheduler.advance(1ms);
  EXPECT_TRUE(sim.executor.set_limit("g", 1).ok());
  sim.scheduler.run_ready();
  // "running" counts: there is room for two more.
  auto second = sim.submit("x", "2");
  auto third = sim.submit("y", "3");
  EXPECT_FALSE(third.is_done());
  EXPECT_TRUE(sim.full("z"));
  EXPECT_EQ(holder.join().value(), answer());
}

// A task that returns from a wait begins also in a paused group.
TEST(QueueThreshold, OfAllGroupsCountsRightWhenATaskReturnsToAPausedGroup) {
  for (const int cost : {1, 2}) {
    Sim sim({.groups = {{"g", {.max_concurrency = 2}}},
             .global_max_in_flight = 2,
             .global_queue_threshold = 0});
    auto outer = sim.executor.submit("g", {.id = "outer", .cost = cost}, [&]() -> Task<int> {
      auto inner = sim.executor.submit("g", {.id = "inner", .cost = cost}, &nap);
      co_return (co_await inner).value();
    });
    sim.scheduler.run_ready();
    sim.executor.pause_group("g");
    EXPECT_EQ(outer.join().value(), 42);
    sim.executor.resume_group("g");
    auto first = sim.submit("x", "1");
    auto second = sim.submit("y", "2");
    EXPECT_FALSE(first.is_done());
    EXPECT_FALSE(second.is_done());
    EXPECT_TRUE(sim.full("z"));
  }
}

}  // namespace
}  // namespace keyway
