// A wait costs the same whether a hundred tasks wait or a hundred thousand.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/counted_checks.h"
#include "support/scale.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// ---- how many other waits the checks of `count` waits look at

// Runs `count` pairs of tasks: the first waits for the second, and the second for a task of the group "inner".
void run_waits(GroupPolicy policy, Scheduler& scheduler, SimScheduler& sim, int count) {
  GroupExecutor executor(std::move(policy), scheduler);
  executor.pause_group("inner");
  std::vector<TaskHandle<int>> handles;
  const auto middle = [&]() -> Task<int> {
    auto inner = executor.submit("inner", [] { return 1; });
    co_return (co_await inner).value();
  };
  const auto outer = [&](int i) -> Task<int> {
    auto next = executor.submit("middle-" + std::to_string(i), middle);
    co_return (co_await next).value();
  };
  for (int i = 0; i < count; ++i) {
    handles.push_back(
        executor.submit("outer-" + std::to_string(i), [&outer, i] { return outer(i); }));
  }
  sim.run_ready();  // all of them wait
  executor.resume_group("inner");
  sim.run_until_idle();
  for (auto& handle : handles) EXPECT_EQ(handle.join().value(), 1);
}

void expect_checks_of_waits_stay(const GroupPolicy& policy) {
  expect_checks_stay([&](int count) {
    SimScheduler sim;
    CountedChecks checks(sim);
    run_waits(policy, checks, sim, count);
    return checks.count();
  });
}

TEST(WaitScale, AWaitLooksAtAsManyOthersHoweverManyThereAre) {
  expect_checks_of_waits_stay({.groups = {{"inner", {.max_concurrency = 4}}}});
}

TEST(WaitScale, AWaitLooksAtAsManyOthersIfAllGroupsHaveTheSameLimits) {
  expect_checks_of_waits_stay({});
}

// All waiters are in one group and hold permits of it, and each has a priority.
TEST(WaitScale, AWaitOfATaskWithAPriorityLooksAtAsManyOthers) {
  expect_checks_stay([](int count) {
    SimScheduler sim;
    CountedChecks checks(sim);
    GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, checks);
    executor.pause_group("inner");
    const auto outer = [&]() -> Task<void> {
      auto inner = executor.submit("inner", {.priority = 1}, [] {});
      (void)co_await inner;
    };
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(executor.post("outer", {.priority = 1}, outer).ok());
      sim.run_ready();
    }
    executor.resume_group("inner");
    sim.run_until_idle();
    return checks.count();
  });
}

// All waiters hold permits of one group, into which as many costly tasks are submitted.
TEST(WaitScale, ACostlySubmitDoesNotSearchTheWaitersOfItsGroup) {
  expect_checks_stay([](int waiters) {
    SimScheduler sim;
    CountedChecks checks(sim);
    GroupExecutor executor({.groups = {{"outer", {.max_concurrency = 2 * waiters}}}}, checks);
    executor.pause_group("inner");
    const auto outer = [&]() -> Task<void> {
      auto inner = executor.submit("inner", [] {});
      (void)co_await inner;
    };
    for (int i = 0; i < waiters; ++i) EXPECT_TRUE(executor.post("outer", outer).ok());
    sim.run_ready();  // all of them wait
    const std::uint64_t before = checks.count();
    for (int i = 0; i < waiters; ++i) {
      EXPECT_TRUE(executor.post("outer", {.cost = 2}, [] {}).ok());
      sim.run_ready();
    }
    const std::uint64_t counted = checks.count() - before;
    executor.resume_group("inner");
    sim.run_until_idle();
    return counted;
  });
}

// Each of its tasks is a wait, and all of these waits have one waiter.
TEST(WaitScale, ExecuteAllInATaskDoesNotLookAtAllItsWaitsForEachOfThem) {
  expect_checks_stay([](int count) {
    SimScheduler sim;
    CountedChecks checks(sim);
    GroupExecutor executor({.default_group = {.max_concurrency = 1}}, checks);
    auto caller = executor.submit("caller", [&] {
      std::vector<GroupTask<void>> tasks;
      for (int i = 0; i < count; ++i) tasks.emplace_back("other", [] {});
      return executor.execute_all(std::move(tasks)).size();
    });
    EXPECT_EQ(caller.join().value(), static_cast<std::size_t>(count));
    return checks.count();
  });
}

// A task of the same group holds a permit, and waits in the end for the task with the branches.
TEST(WaitScale, ABranchThatReturnsDoesNotLookAtAllBranchesOfItsTask) {
  expect_checks_stay([](int count) {
    SimScheduler sim;
    CountedChecks checks(sim);
    GroupExecutor executor({.default_group = {.max_concurrency = 2}}, checks);
    const auto await_one = [&](const char* group) -> Task<void> {
      auto handle = executor.submit(group, [] {});
      (void)co_await handle;
    };
    TaskHandle<void> whole = executor.submit("g", [&]() -> Task<void> {
      co_await sleep_for(std::chrono::seconds(1));
      std::vector<Task<void>> branches;
      for (int i = 0; i < count; ++i) branches.push_back(await_one("g"));
      co_await when_all(std::move(branches));
    });
    auto waits = executor.submit("h", [&]() -> Task<void> { (void)co_await whole; });
    auto holds = executor.submit("g", [&]() -> Task<void> { (void)co_await waits; });
    EXPECT_TRUE(holds.join().ok());
    return checks.count();
  });
}

// As when two workers run a chain: each wait joins two parts of it.
TEST(WaitScale, NeighboursOfAChainThatBeginInSwappedOrderDoNotSearchIt) {
  expect_checks_stay([](int count) {
    SimScheduler sim;
    CountedChecks checks(sim);
    GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, checks);
    std::vector<TaskHandle<void>> chain(static_cast<std::size_t>(count));
    chain[0] = executor.submit("g", []() -> Task<void> { co_await sleep_for(1h); });
    for (std::size_t i = 1; i < chain.size(); ++i) {
      chain[i] = executor.submit("g", [&chain, i]() -> Task<void> {
        co_await sleep_for(i * 1us + (i % 2 == 1 ? 1min : 0min));
        (void)co_await chain[i - 1];
      });
    }
    EXPECT_TRUE(chain.back().join().ok());
    return checks.count();
  });
}

// Waits of one executor, while tasks of another one drain a group of a third.
TEST(WaitScale, DrainsOfOtherGroupsAreNotLookedAt) {
  const auto seconds = [](int count) {
    SimScheduler drains;  // a simulation looks at all its blocked threads in each step
    GroupExecutor sleeping({}, drains), draining({}, drains);
    EXPECT_TRUE(sleeping.post("g", []() -> Task<void> { co_await sleep_for(1h); }).ok());
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(draining.post(std::to_string(i), [&] { sleeping.drain_group("g"); }).ok());
    }
    drains.run_ready();
    SimScheduler sim;
    GroupExecutor waiting({.default_group = {.max_concurrency = kUnlimited}}, sim);
    waiting.pause_group("inner");
    const auto wait = [&]() -> Task<void> {
      auto inner = waiting.submit("inner", [] {});
      (void)co_await inner;
    };
    const double began = cpu_seconds();
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(waiting.post("outer", wait).ok());
      sim.run_ready();
    }
    const double took = cpu_seconds() - began;
    waiting.resume_group("inner");
    sim.run_until_idle();
    drains.run_until_idle();
    return took;
  };
  expect_cost_stays(seconds, 100, 3'000);
}

// Each task of a chain begins to wait when those before it wait. A task drains their executor meanwhile, and another task an
// executor that has nothing to do with them.
TEST(WaitScale, AChainDuringDrainsInTasksIsNotSearched) {
  expect_checks_stay([](int count) {
    SimScheduler sim;
    CountedChecks checks(sim);
    GroupExecutor other({}, checks);
    GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, checks);
    GroupExecutor drains({}, checks);
    for (GroupExecutor* drained : {&other, &executor}) {
      EXPECT_TRUE(drained->post("g", []() -> Task<void> { co_await sleep_for(1h); }).ok());
      const char* group = drained == &other ? "other" : "chain";
      EXPECT_TRUE(drains.post(group, [drained] { (void)drained->drain(); }).ok());
    }
    sim.run_ready();
    std::vector<TaskHandle<void>> chain(static_cast<std::size_t>(count));
    chain[0] = executor.submit("g", []() -> Task<void> { co_await sleep_for(1h); });
    const std::uint64_t before = checks.count();
    for (std::size_t i = 1; i < chain.size(); ++i) {
      chain[i] = executor.submit("g", [&chain, i]() -> Task<void> { (void)co_await chain[i - 1]; });
      sim.run_ready();
    }
    const std::uint64_t counted = checks.count() - before;
    EXPECT_TRUE(chain.back().join().ok());
    sim.run_until_idle();
    return counted;
  });
}

// When the limit goes down, each waiter must give its permit back, because it waits in the end for a task of its own group.
TEST(WaitScale, ALowerLimitSearchesItsWaitersOnceForAll) {
  expect_checks_stay([](int count) {
    SimScheduler sim;
    CountedChecks checks(sim);
    GroupExecutor executor({.groups = {{"outer", {.max_concurrency = 2 * count}}},
                            .default_group = {.max_concurrency = kUnlimited}},
                           checks);
    const auto middle = [&]() -> Task<void> {
      auto first = executor.submit("first", [] {});
      (void)co_await first;
      auto inner = executor.submit("outer", [] {});
      (void)co_await inner;
    };
    const auto outer = [&]() -> Task<void> {
      auto next = executor.submit("middle", middle);
      (void)co_await next;
    };
    executor.pause_group("first");
    for (int i = 0; i < count; ++i) EXPECT_TRUE(executor.post("outer", outer).ok());
    sim.run_ready();
    executor.pause_group("outer");
    executor.resume_group("first");
    sim.run_ready();  // all of them wait for tasks of "outer"
    const std::uint64_t before = checks.count();
    EXPECT_TRUE(executor.set_limit("outer", 1).ok());
    const std::uint64_t counted = checks.count() - before;
    executor.resume_group("outer");
    sim.run_until_idle();
    EXPECT_EQ(executor.group_stats("outer").running, 0U);
    return counted;
  });
}

// ---- time, where nothing counts

TEST(WaitScale, TimePerWaitDoesNotGrowWithTheNumberOfWaiters) {
  const auto seconds = [](int count) {
    SimScheduler sim;
    const double began = cpu_seconds();
    run_waits({.groups = {{"inner", {.max_concurrency = 4}}}}, sim, sim, count);
    return cpu_seconds() - began;
  };
  expect_cost_stays(seconds, 1'000, 20'000);
}

TEST(WaitScale, WaitingForRoomInManyGroupsDoesNotGrowEither) {
  for (const int global_threshold : {kUnlimited, 1'000}) {
    SCOPED_TRACE(global_threshold);
    const auto seconds = [&](int count) {
      SimScheduler sim;
      GroupExecutor executor({.default_group = {.max_concurrency = 1, .queue_threshold = 0},
                              .global_max_in_flight = 1'000'000,
                              .global_queue_threshold = global_threshold},
                             sim);
      const auto run = []() -> Task<void> { co_await sleep_for(std::chrono::seconds(1)); };
      for (int i = 0; i < count; ++i) {
        EXPECT_TRUE(executor.post("full-" + std::to_string(i), run).ok());
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
      return took;
    };
    expect_cost_stays(seconds, 200, 6'000);
  }
}

// Each of them is looked up among all that share the result: when it is waited for, and when it is cancelled.
TEST(WaitScale, OfASharedResultDoesNotGrowEither) {
  const auto seconds = [](int count) {
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
    return cpu_seconds() - began;
  };
  expect_cost_stays(seconds, 500, 20'000);
}

// ---- long chains

TEST(WaitScale, AChainOfManyWaitsIsFoundToEnd) {
  const auto seconds = [](int length) {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    std::function<Task<int>(int)> link = [&](int left) -> Task<int> {
      if (left == 0) co_return 0;
      auto next =
          executor.submit("link-" + std::to_string(left), [&link, left] { return link(left - 1); });
      co_return 1 + (co_await next).value();
    };
    auto first = executor.submit("first", [&] { return link(length); });
    const double began = cpu_seconds();
    sim.run_until_idle();
    const double took = cpu_seconds() - began;
    EXPECT_EQ(first.join().value(), length);
    return took;
  };
  expect_cost_stays(seconds, 1'000, 20'000);
}

TEST(WaitScale, ACycleAtTheEndOfALongChainIsRefused) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  constexpr int kLength = 5'000;
  std::optional<TaskHandle<int>> first;
  int refused = 0;
  std::string message;
  std::function<Task<int>(int)> link = [&](int left) -> Task<int> {
    try {
      if (left == 0) co_return (co_await *first).value();
      auto next =
          executor.submit("link-" + std::to_string(left), [&link, left] { return link(left - 1); });
      co_return 1 + (co_await next).value();
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::kWaitCycle);
      message = error.what();
      ++refused;
      co_return 0;
    }
  };
  first = executor.submit("first", [&] { return link(kLength); });
  sim.run_until_idle();
  EXPECT_EQ(first->join().value(), kLength);
  EXPECT_EQ(refused, 1);
  EXPECT_NE(message.find("; and 4993 more;"), std::string::npos) << message.substr(0, 2'000);
}

}  // namespace
}  // namespace keyway
