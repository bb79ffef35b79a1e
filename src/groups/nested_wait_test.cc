// Tasks that wait for other tasks: they lend their permits, and never wait for each other for ever.
#include <atomic>
#include <coroutine>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/future.h"
#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"
#include "support/foreign_coroutine.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

// Counts tasks that run; one that waits for another is not running.
class Running {
 public:
  explicit Running(int limit) : limit_(limit) {}
  void enter() { EXPECT_LE(++inside_, limit_); }
  void leave() { --inside_; }
  template <class T>
  GroupResult<T> join(TaskHandle<T>& handle) {
    leave();
    GroupResult<T> result = handle.join();
    enter();
    return result;
  }

 private:
  const int limit_;
  std::atomic<int> inside_ = 0;
};

// ---- a task waits for one of its own group

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

// ---- co_await

TEST(NestedWait, ACoroutineOutsideOfAnyTaskMayAwaitAHandle) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto slow = [&]() -> Task<int> {
    co_await sleep_for(1s);
    co_return 42;
  };
  auto await_both = [&](TaskHandle<int> first, TaskHandle<int> second) -> Task<int> {
    co_return (co_await first).value() + (co_await second).value();
  };
  auto done = executor.submit("a", "1", answer);
  sim.run_ready();
  EXPECT_EQ(sync_wait(sim, await_both(std::move(done), executor.submit("a", "2", slow))), 84);
}

TEST(NestedWait, AnyOtherCoroutineMayAwaitAHandle) {
  std::latch go(1);
  std::promise<int> value;
  GroupExecutor executor({});
  [](TaskHandle<int> handle, std::promise<int>& result) -> ForeignCoroutine {
    result.set_value((co_await handle).value());
  }(executor.submit("a", "1", [&] { return go.wait(), 42; }), value);
  go.count_down();
  EXPECT_EQ(value.get_future().get(), 42);
}

TEST(NestedWait, AStopRequestEndsTheWaitOfACoroutine) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto long_one = executor.submit("a", "1", []() -> Task<void> { co_await sleep_for(1h); });
  auto waiter = executor.submit("b", "2", [&]() -> Task<void> { (void)co_await long_one; });
  sim.run_ready();
  EXPECT_TRUE(waiter.cancel());
  sim.run_ready();
  ASSERT_TRUE(waiter.is_done());
  EXPECT_EQ(waiter.join().status, TaskStatus::kCancelled);
  EXPECT_FALSE(long_one.is_done());
}

// ---- one handle, awaited more than once

Task<int> value_of(TaskHandle<int>& handle) { co_return (co_await handle).value(); }
// The message of the refusal.
Task<std::string> refusal_of(TaskHandle<int>& handle) {
  try {
    (void)co_await handle;
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), ErrorCode::kResultTaken);
    co_return exception.what();
  }
  co_return "";
}
Task<int> slow_answer() {
  co_await sleep_for(1s);
  co_return 42;
}

TEST(NestedWait, ASecondCoroutineThatAwaitsAHandleIsRefusedAndTheFirstGoesOn) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto slow = executor.submit("a", "1", slow_answer);
  auto first = executor.submit("b", "2", [&] { return value_of(slow); });
  sim.run_ready();
  auto second = executor.submit("c", "3", [&] { return refusal_of(slow); });
  sim.run_ready();
  ASSERT_TRUE(second.is_done());
  EXPECT_EQ(second.join().value(),
            "task \"1\" of group \"a\" is awaited already, and its result can be taken only once; "
            "await it in one place, and share the result from there");
  EXPECT_EQ(first.join().value(), 42);
}

TEST(NestedWait, OfManyBranchesThatAwaitAHandleOneGetsTheResult) {
  ThreadPool pool;
  GroupExecutor executor({}, pool);
  std::latch go(1);
  auto task = executor.submit("a", "1", [&] { return go.wait(), 42; });
  std::atomic<int> got = 0;
  std::atomic<int> refused = 0;
  auto branch = [&]() -> Task<void> {
    try {
      const auto result = co_await task;
      got += result.value();
    } catch (const Exception& exception) {
      EXPECT_EQ(exception.code(), ErrorCode::kResultTaken);
      if (++refused == 3) go.count_down();
    }
  };
  auto await_all = [&]() -> Task<void> {
    co_await when_all(branch(), branch(), branch(), branch());
  };
  sync_wait(pool, await_all());
  EXPECT_EQ(got, 42);
  EXPECT_EQ(refused, 3);
}

TEST(NestedWaitDeathTest, AHandleThatACoroutineAwaitsBecomesNoFuture) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto slow = executor.submit("a", "1", slow_answer);
  auto waiter = executor.submit("b", "2", [&] { return value_of(slow); });
  sim.run_ready();
  EXPECT_DEATH((void)to_future(std::move(slow)), "a coroutine awaits");
  EXPECT_EQ(waiter.join().value(), 42);
}

TEST(NestedWait, AHandleCanBeAwaitedAgainAfterAStopOrATimeout) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto slow = executor.submit("a", "1", slow_answer);
  auto stopped = executor.submit("b", "2", [&] { return value_of(slow); });
  sim.run_ready();
  EXPECT_TRUE(stopped.cancel());
  sim.run_ready();
  EXPECT_EQ(stopped.join().status, TaskStatus::kCancelled);
  auto late = executor.submit("b", "3", [&]() -> Task<int> {
    EXPECT_EQ(slow.join_for(1ms).status, TaskStatus::kTimedOut);
    try {
      co_await with_timeout(1ms, value_of(slow));
    } catch (const TimeoutError&) {
    }
    co_return co_await value_of(slow);
  });
  EXPECT_EQ(late.join().value(), 42);
}

TEST(NestedWait, AHandleCanBeAwaitedAgainAfterAWaitThatWasRefused) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  TaskHandle<int> first;
  TaskHandle<int> second = executor.submit("b", "2", [&] { return value_of(first); });
  std::optional<ErrorCode> refusal;
  first = executor.submit("a", "1", [&]() -> Task<int> {
    try {
      (void)co_await second;
    } catch (const Exception& exception) {
      refusal = exception.code();
    }
    co_return co_await slow_answer();
  });
  sim.run_ready();
  EXPECT_EQ(refusal, ErrorCode::kWaitCycle);
  EXPECT_FALSE(second.is_done());
  EXPECT_EQ(sync_wait(sim, value_of(second)), 42);
}

TEST(NestedWait, AThreadMayJoinAHandleThatACoroutineAwaits) {
  ThreadPool pool;
  GroupExecutor executor({}, pool);
  std::latch go(1);
  std::latch awaits(1);
  auto task = executor.submit("a", "1", [&] { return go.wait(), 42; });
  auto awaiter = executor.submit("b", "2", [&]() -> Task<int> {
    awaits.count_down();
    co_return (co_await task).value();
  });
  awaits.wait();
  EXPECT_EQ(task.join_for(1ms).status, TaskStatus::kTimedOut);
  go.count_down();
  std::optional<ErrorCode> refusal;
  int joined = 0;
  try {
    joined = task.join().value();
  } catch (const Exception& exception) {
    refusal = exception.code();
  }
  // One of the two takes the result, and the other one is told.
  const auto awaited = awaiter.join();
  if (awaited.ok()) {
    EXPECT_EQ(refusal, ErrorCode::kResultTaken);
  } else {
    EXPECT_EQ(joined, 42);
    EXPECT_EQ(awaited.status, TaskStatus::kFailed);
  }
}

TEST(NestedWait, WhatAwaitThrowsIsThrownByCoAwait) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.queue_threshold = 0}}, sim);
  auto await_it = [](TaskHandle<int> handle) -> Task<int> { co_return (co_await handle).value(); };
  auto running = executor.submit("a", "1", answer);
  EXPECT_THROW(sync_wait(sim, await_it(executor.submit("a", "2", answer))), RejectedError);
  EXPECT_THROW(sync_wait(sim, await_it({})), Exception);
  EXPECT_THROW(sync_wait(sim, await_it(executor.submit("b", "3", []() -> int { throw 42; }))), int);
}

// ---- several waits at once, and ways back. A fault here crashes or hangs: in a process of its own

Task<void> await_one(TaskHandle<void>& handle) { (void)co_await handle; }

Task<void> nap(Running& running) {
  running.enter();
  co_await sleep_for(1s);
  running.leave();
}

TEST(NestedWait, ATaskThatAwaitsTwoTasksAtOnceLendsItsPermitOnce) {
  expect_ends([] {
    SimScheduler sim;
    Running running(1);
    GroupExecutor executor({}, sim);
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto first = executor.submit("a", "1", [&] { return nap(running); });
      auto second = executor.submit("a", "2", [&] { return nap(running); });
      co_await when_all(await_one(first), await_one(second));
    });
    EXPECT_TRUE(parent.join().ok());
    EXPECT_EQ(executor.stats().running, 0U);
    EXPECT_TRUE(executor.submit("a", "next", answer).join().ok());
  });
}

TEST(NestedWait, ATaskMayWaitForOneThatIsOnItsWayBack) {
  expect_ends([] {
    SimScheduler sim;
    TaskHandle<void> parent;
    TaskHandle<void> second;
    GroupExecutor executor({}, sim);
    parent = executor.submit("a", "parent", [&]() -> Task<void> {
      auto first = executor.submit("a", "first", [] {});
      second = executor.submit("a", "second", [&] { return await_one(parent); });
      co_await await_one(first);  // when it is done, `second` runs before the parent does
    });
    sim.run_until_idle();
    EXPECT_TRUE(second.is_done());
  });
}

TEST(NestedWait, ATaskOnItsWayBackIsNotCountedAsRejected) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
    auto first = executor.submit("a", "first", [] {});
    (void)executor.submit("a", "second", [&] { executor.shutdown_group("a"); });
    co_await await_one(first);
  });
  EXPECT_TRUE(parent.join().ok());
  EXPECT_EQ(executor.stats().submitted, 3U);
  EXPECT_EQ(executor.stats().succeeded, 3U);
  EXPECT_EQ(executor.stats().rejected, 0U);
}

TEST(NestedWait, AShutdownHearsOfTheEndOfATaskThatCameBack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_ends([] {
    ThreadPool pool({.threads = 3});
    for (int round = 0; round < 300; ++round) {
      std::latch submitted(1);
      GroupExecutor executor({}, pool);
      auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
        auto child = executor.submit("a", "child", [] {});
        submitted.count_down();
        co_await await_one(child);
      });
      submitted.wait();
      EXPECT_TRUE(executor.shutdown(1h));
      EXPECT_TRUE(parent.is_done());
    }
  });
}

TEST(NestedWait, BranchesOfOneTaskMayWaitOnSeveralThreadsAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_ends([] {
    GroupExecutor executor({}, {.threads = 4});
    auto branch = [&](std::string key) -> Task<void> {
      for (int i = 0; i < 2'000; ++i) {
        auto child = executor.submit(key, "child", [] {});
        (void)co_await child;
      }
    };
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      co_await when_all(branch("b"), branch("c"), branch("d"));
    });
    EXPECT_TRUE(parent.join().ok());
  });
}

TEST(NestedWait, ABranchGoesOnWhenItsOwnWaitIsOver) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 1}, sim);
  std::vector<std::string> order;
  auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
    auto first = executor.submit("b", "1", [&] { order.emplace_back("first"); });
    auto second = executor.submit("c", "1", [&] { order.emplace_back("second"); });
    auto go_on = [&]() -> Task<void> {
      co_await await_one(first);
      order.emplace_back("parent goes on");
    };
    co_await when_all(go_on(), await_one(second));
  });
  EXPECT_TRUE(parent.join().ok());
  // The branch comes back in front of the second task, and gives the permit back when it ends.
  EXPECT_EQ(order, (std::vector<std::string>{"first", "parent goes on", "second"}));
}

TEST(NestedWait, WhenAnyReturnsWithTheFirstUnderAGlobalLimit) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 100}, sim);
  const TimePoint began = sim.now();
  auto parent = executor.submit("a", "parent", [&]() -> Task<std::size_t> {
    auto quick = executor.submit("b", "1", []() -> Task<void> { co_await sleep_for(50ms); });
    auto slow = executor.submit("c", "1", []() -> Task<void> { co_await sleep_for(3s); });
    co_return (co_await when_any(await_one(quick), await_one(slow))).index;
  });
  auto result = parent.join();
  EXPECT_EQ(result.value(), 0U);
  EXPECT_EQ(sim.now() - began, 50ms);
}

// Suspends a coroutine until the test resumes it.
struct Park {
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) { parked = coroutine; }
  void await_resume() const {}
  std::coroutine_handle<>& parked;
};

TEST(NestedWait, ATaskThatStandsInLineForItsGlobalPermitMayLendItsGroupsToo) {
  expect_ends([] {
    SimScheduler sim;
    std::coroutine_handle<> target_parked;
    std::coroutine_handle<> first_branch;
    std::coroutine_handle<> second_branch;
    TaskHandle<void> cancelled;
    TaskHandle<void> child;
    GroupExecutor executor({.default_group = {.max_concurrency = 2}, .global_max_in_flight = 2},
                           sim);
    auto wait_after = [](std::coroutine_handle<>& parked, TaskHandle<void>& handle) -> Task<void> {
      co_await Park{parked};
      co_await await_one(handle);
    };
    auto parent = executor.submit("a", "parent", [&]() -> Task<void> {
      co_await when_all(wait_after(first_branch, cancelled), wait_after(second_branch, child));
    });
    auto other = executor.submit("b", "1", [&]() -> Task<void> {
      auto target =
          executor.submit("c", "1", [&]() -> Task<void> { co_await Park{target_parked}; });
      co_await await_one(target);
    });
    sim.run_ready();  // `parent` and `target` hold the permits
    child = executor.submit("a", "child", [] {});
    cancelled = executor.submit("d", "1", [] {});
    sim.run_ready();                  // their groups stand in line
    first_branch.resume();            // `parent` lends its global permit, to group a
    target_parked.resume();           // `other` stands in line for its permit
    EXPECT_TRUE(cancelled.cancel());  // and so does `parent`
    second_branch.resume();           // which now lends its group's permit as well
    sim.run_until_idle();
    EXPECT_TRUE(other.join().ok());
    EXPECT_TRUE(parent.join().ok());
    EXPECT_EQ(executor.stats().running, 0U);
    EXPECT_TRUE(executor.submit("a", "next", answer).join().ok());
  });
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
