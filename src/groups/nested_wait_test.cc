// Tasks that wait for other tasks: they lend their permits, and never wait for each other for ever.
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/own_process.h"
#include "support/running.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

int descend(GroupExecutor& executor, Running& running, int depth) {
  if (depth == 0) return 0;
  auto next = executor.submit("a", std::to_string(depth), [&executor, &running, depth] {
    running.enter();
    const int reached = descend(executor, running, depth - 1);
    running.leave();
    return reached;
  });
  return running.join(next).value() + 1;
}

TEST(NestedWait, ATaskMayWaitForATaskOfItsOwnGroup) {
  for (const int global_limit : {kUnlimited, 1}) {
    Running running(1);
    GroupExecutor executor({.global_max_in_flight = global_limit});
    auto outer = executor.submit("a", "outer", [&] {
      running.enter();
      auto inner = executor.submit("a", "inner", [&] {
        running.enter();
        running.leave();
        return 41;
      });
      const int value = running.join(inner).value();
      running.leave();
      return value + 1;
    });
    EXPECT_EQ(outer.join().value(), 42);
  }
}

TEST(NestedWait, SeveralLevelsDeep) {
  Running running(1);
  GroupExecutor executor({.global_max_in_flight = 1});
  auto outer = executor.submit("a", "outer", [&] {
    running.enter();
    const int reached = descend(executor, running, 12);
    running.leave();
    return reached;
  });
  EXPECT_EQ(outer.join().value(), 12);
}

Task<int> descend_async(GroupExecutor& executor, Running& running, int depth) {
  running.enter();
  if (depth == 0) {
    running.leave();
    co_return 0;
  }
  auto next = executor.submit("a", std::to_string(depth), [&executor, &running, depth] {
    return descend_async(executor, running, depth - 1);
  });
  running.leave();
  GroupResult<int> result = co_await next;
  running.enter();
  running.leave();
  co_return result.value() + 1;
}

TEST(NestedWait, SeveralLevelsDeepWithCoroutines) {
  {
    Running running(1);
    GroupExecutor executor({.global_max_in_flight = 1});
    auto outer =
        executor.submit("a", "outer", [&] { return descend_async(executor, running, 30); });
    EXPECT_EQ(outer.join().value(), 30);
  }
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimScheduler sim(seed);
    Running running(1);
    GroupExecutor executor({}, sim);
    auto outer =
        executor.submit("a", "outer", [&] { return descend_async(executor, running, 30); });
    EXPECT_EQ(outer.join().value(), 30);
  }
}

TEST(NestedWait, ATaskMayWaitForATaskOfAnotherGroupUnderAGlobalLimitOfOne) {
  Running running(1);
  GroupExecutor executor({.global_max_in_flight = 1});
  std::function<int(char)> chain = [&](char group) {
    running.enter();
    int length = 1;
    if (group < 'e') {
      const char next = static_cast<char>(group + 1);
      auto inner = executor.submit(std::string(1, next), "1", [&, next] { return chain(next); });
      length += running.join(inner).value();
    }
    running.leave();
    return length;
  };
  EXPECT_EQ(executor.submit("a", "1", [&] { return chain('a'); }).join().value(), 5);
}

TEST(NestedWait, ManyParentsWaitForManyChildrenWithinTheLimit) {
  Running running(2);
  std::atomic<int> sum = 0;
  GroupExecutor executor({.default_group = {.max_concurrency = 2}, .global_max_in_flight = 3});
  std::vector<TaskHandle<void>> parents;
  for (int i = 0; i < 20; ++i) {
    parents.push_back(executor.submit("a", "parent", [&] {
      running.enter();
      std::vector<TaskHandle<int>> children;
      for (int child = 0; child < 3; ++child) {
        children.push_back(executor.submit("a", "child", [&] {
          running.enter();
          running.leave();
          return 1;
        }));
      }
      for (auto& child : children) sum += running.join(child).value();
      running.leave();
    }));
  }
  for (auto& parent : parents) EXPECT_TRUE(parent.join().ok());
  EXPECT_EQ(sum, 60);
  EXPECT_EQ(executor.stats().succeeded, 80U);
}

TEST(NestedWait, ExecuteAllWorksInsideATask) {
  GroupExecutor executor({.global_max_in_flight = 1});
  auto outer = executor.submit("a", "outer", [&] {
    std::vector<GroupTask<int>> tasks;
    for (const char* group : {"a", "b", "a"}) tasks.emplace_back(group, "inner", answer);
    int sum = 0;
    for (auto& result : executor.execute_all(std::move(tasks))) sum += result.value();
    return sum;
  });
  EXPECT_EQ(outer.join().value(), 126);
}

TEST(NestedWait, AWaitThatTimesOutTakesItsPermitBack) {
  SimScheduler sim;
  Running running(1);
  GroupExecutor executor({.global_max_in_flight = 1}, sim);
  TaskHandle<void> inner;
  auto outer = executor.submit("a", "outer", [&] {
    running.enter();
    inner = executor.submit("a", "inner", [&] {
      running.enter();
      running.leave();
    });
    EXPECT_THROW(inner.join_for(0s).value(), TimeoutError);
    EXPECT_EQ(executor.group_stats("a").running, 1U);
    EXPECT_EQ(executor.group_stats("a").waiting, 1U);
    running.leave();
  });
  EXPECT_TRUE(outer.join().ok());
  EXPECT_TRUE(inner.join().ok());
}

TEST(NestedWait, ATaskThatCameBackIsCountedOnce) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto outer = executor.submit(
      "a", "outer", [&] { return executor.submit("a", "inner", answer).join().value(); });
  EXPECT_EQ(outer.join().value(), 42);
  const GroupStats stats = executor.group_stats("a");
  EXPECT_EQ(stats.submitted, 2U);
  EXPECT_EQ(stats.succeeded, 2U);
  EXPECT_EQ(stats.running + stats.waiting, 0U);
}

TEST(NestedWait, IsRefusedWhereNoOtherThreadCouldRunTheTask) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_ends([] {
    GroupExecutor executor({}, {.threads = 1, .max_threads = 1});
    auto outer = executor.submit("a", "outer", [&] {
      auto inner = executor.submit("a", "inner", answer);
      try {
        return inner.join().value();
      } catch (const Exception& error) {
        EXPECT_EQ(error.code(), ErrorCode::kNoThread);
        return 0;
      }
    });
    EXPECT_EQ(outer.join().value(), 0);
  });
}

TEST(NestedWait, InVirtualTimeAWaitTimesOutAlsoWhenNothingElseIsToHappen) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto waiting = executor.submit("a", "1", [](std::stop_token stop) -> Task<void> {
    struct UntilStop {
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> coroutine) { callback.emplace(stop, coroutine); }
      void await_resume() {}
      std::stop_token stop;
      std::optional<std::stop_callback<std::coroutine_handle<>>> callback;
    };
    UntilStop until_stop{std::move(stop),
                         {}};  // a variable: GCC 12 destroys such a temporary twice
    co_await until_stop;
  });
  EXPECT_THROW(waiting.join_for(1min).value(), TimeoutError);
  waiting.cancel();
}

}  // namespace
}  // namespace keyway
