// A wait costs the same whether a hundred tasks wait or a hundred thousand.
#include <chrono>
#include <ctime>
#include <functional>
#include <latch>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using testing::SimScheduler;

// Coroutines on a simulation: nothing but the waits themselves takes time.
class WaitScale : public ::testing::Test {
 protected:
  // Seconds for `count` tasks, each of which waits for one of its own.
  template <class GroupOf>
  double seconds(int count, GroupPolicy policy, GroupOf inner_group_of) {
    SimScheduler sim;
    GroupExecutor executor(std::move(policy), sim);
    executor.pause_group("inner");
    std::vector<TaskHandle<int>> handles;
    const auto outer = [&](int i) -> Task<int> {
      TaskHandle<int> inner = executor.submit(inner_group_of(i), [] { return 1; });
      GroupResult<int> result = co_await inner;
      co_return result.value();
    };
    const double began = cpu_seconds();
    for (int i = 0; i < count; ++i) {
      handles.push_back(
          executor.submit("outer-" + std::to_string(i), [&outer, i] { return outer(i); }));
    }
    sim.run_ready();  // all of them wait now, if the inner group is paused
    executor.resume_group("inner");
    sim.run_until_idle();
    const double took = cpu_seconds() - began;
    for (auto& handle : handles) EXPECT_EQ(handle.join().value(), 1);
    return took;
  }

  // Of this thread, on which the simulation runs: other processes do not count.
  static double cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
};

// Measured against a twentieth of the waits in the same run.
TEST_F(WaitScale, TimePerWaitDoesNotGrowWithTheNumberOfWaiters) {
  const auto one_group = [](int) { return std::string("inner"); };
  const GroupPolicy uneven{.groups = {{"inner", {.max_concurrency = 4}}}};
  seconds(2'000, uneven, one_group);  // warms up
  const double few = seconds(2'000, uneven, one_group) / 2'000;
  const double many = seconds(40'000, uneven, one_group) / 40'000;
  // Twenty times as many would take twenty times as long each if a wait were linear.
  EXPECT_LT(many, 6 * few);
}

// All waiters in one group, and the tasks that they wait for have a priority.
TEST_F(WaitScale, OfTasksWithAPriorityDoesNotGrowEither) {
  const auto seconds_each = [](int count) {
    SimScheduler sim;
    GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, sim);
    const double began = cpu_seconds();
    for (int i = 0; i < count; ++i) {
      const auto outer = [&]() -> Task<void> {
        auto inner = executor.submit("inner", {.priority = 1}, [] {});
        (void)co_await inner;
      };
      EXPECT_TRUE(executor.post("outer", outer).ok());
    }
    sim.run_until_idle();
    return (cpu_seconds() - began) / count;
  };
  seconds_each(500);  // warms up
  const double few = seconds_each(500);
  EXPECT_LT(seconds_each(10'000), 6 * few);
}

// All waiters hold permits of one group, into which costly tasks are submitted.
TEST_F(WaitScale, ACostlySubmitDoesNotSearchTheWaitersOfItsGroup) {
  const auto seconds_each = [](int count) {
    SimScheduler sim;
    GroupExecutor executor({.groups = {{"outer", {.max_concurrency = 2 * count}}}}, sim);
    executor.pause_group("inner");
    for (int i = 0; i < count; ++i) {
      const auto outer = [&]() -> Task<void> {
        auto inner = executor.submit("inner", [] {});
        (void)co_await inner;
      };
      EXPECT_TRUE(executor.post("outer", outer).ok());
    }
    sim.run_ready();  // all of them wait
    const double began = cpu_seconds();
    for (int i = 0; i < 1'000; ++i) {
      EXPECT_TRUE(executor.post("outer", {.cost = 2}, [] {}).ok());
      sim.run_ready();
    }
    const double took = cpu_seconds() - began;
    executor.resume_group("inner");
    sim.run_until_idle();
    return took;
  };
  seconds_each(100);  // warms up
  const double few = seconds_each(100);
  EXPECT_LT(seconds_each(5'000), 10 * few);
}

TEST_F(WaitScale, WaitingForRoomInManyGroupsDoesNotGrowEither) {
  const auto seconds_each = [](int count, int global_threshold) {
    SimScheduler sim;
    GroupExecutor executor({.default_group = {.max_concurrency = 1, .queue_threshold = 0},
                            .global_max_in_flight = 1'000'000,
                            .global_queue_threshold = global_threshold},
                           sim);
    std::vector<TaskHandle<void>> busy;
    const auto run = []() -> Task<void> { co_await sleep_for(std::chrono::seconds(1)); };
    for (int i = 0; i < count; ++i) {
      busy.push_back(executor.submit("full-" + std::to_string(i), run));
    }
    sim.run_ready();
    const double began = cpu_seconds();
    for (int i = 0; i < count; ++i) {
      const auto submit = [&executor, i]() -> Task<void> {
        (void)co_await executor.submit_async("full-" + std::to_string(i), {}, [] {});
      };
      EXPECT_TRUE(executor.post("submitter-" + std::to_string(i), submit).ok());
    }
    sim.run_ready();
    const double took = cpu_seconds() - began;
    sim.run_until_idle();
    return took / count;
  };
  for (const int global_threshold : {kUnlimited, 1'000}) {
    seconds_each(200, global_threshold);  // warms up
    const double few = seconds_each(200, global_threshold);
    EXPECT_LT(seconds_each(6'000, global_threshold), 6 * few) << global_threshold;
  }
}

// Each of them is looked up among all that share the result: when it is waited for, and when it is cancelled.
TEST_F(WaitScale, OfASharedResultDoesNotGrowEither) {
  const auto seconds_each = [](int count) {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    const auto slow = []() -> Task<void> { co_await sleep_for(std::chrono::seconds(1)); };
    std::vector<TaskHandle<void>> shared;
    for (int i = 0; i < count; ++i) {
      shared.push_back(
          executor.submit("g", {.id = "x", .conflation = Conflation::kShareResult}, slow));
    }
    const double began = cpu_seconds();
    for (auto handle = shared.rbegin(); handle != shared.rend(); ++handle) {
      EXPECT_TRUE(handle->cancel());
    }
    return (cpu_seconds() - began) / count;
  };
  seconds_each(500);  // warms up
  const double few = seconds_each(500);
  EXPECT_LT(seconds_each(20'000), 6 * few);
}

TEST_F(WaitScale, AChainOfManyWaitsIsFoundToEnd) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  constexpr int kLength = 20'000;
  std::function<Task<int>(int)> link = [&](int left) -> Task<int> {
    if (left == 0) co_return 0;
    auto next =
        executor.submit("link-" + std::to_string(left), [&link, left] { return link(left - 1); });
    co_return 1 + (co_await next).value();
  };
  auto first = executor.submit("first", [&] { return link(kLength); });
  sim.run_until_idle();
  EXPECT_EQ(first.join().value(), kLength);
}

TEST_F(WaitScale, ACycleAtTheEndOfALongChainIsRefused) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  constexpr int kLength = 5'000;
  std::optional<TaskHandle<int>> first;
  int refused = 0;
  std::function<Task<int>(int)> link = [&](int left) -> Task<int> {
    try {
      if (left == 0) co_return (co_await *first).value();
      auto next =
          executor.submit("link-" + std::to_string(left), [&link, left] { return link(left - 1); });
      co_return 1 + (co_await next).value();
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::kWaitCycle);
      ++refused;
      co_return 0;
    }
  };
  first = executor.submit("first", [&] { return link(kLength); });
  sim.run_until_idle();
  EXPECT_EQ(first->join().value(), kLength);
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace keyway
