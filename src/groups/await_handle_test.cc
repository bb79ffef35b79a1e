// co_await of a TaskHandle: which coroutines may do it, how often, and what it throws.
#include <atomic>
#include <future>
#include <latch>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/future.h"
#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"
#include "support/foreign_coroutine.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

TEST(AwaitHandle, ACoroutineOutsideOfAnyTaskMayAwaitAHandle) {
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

TEST(AwaitHandle, AnyOtherCoroutineMayAwaitAHandle) {
  std::latch go(1);
  std::promise<int> value;
  GroupExecutor executor({});
  [](TaskHandle<int> handle, std::promise<int>& result) -> ForeignCoroutine {
    result.set_value((co_await handle).value());
  }(executor.submit("a", "1", [&] { return go.wait(), 42; }), value);
  go.count_down();
  EXPECT_EQ(value.get_future().get(), 42);
}

TEST(AwaitHandle, AStopRequestEndsTheWaitOfACoroutine) {
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

OwnedCoroutine await_only(TaskHandle<int>& handle) { (void)co_await handle; }

TEST(AwaitHandle, ACoroutineMayBeDestroyedWhileItWaits) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto task = executor.submit("a", "1", []() -> Task<int> {
    co_await sleep_for(1s);
    co_return 42;
  });
  {
    const OwnedCoroutine waits = await_only(task);
  }
  EXPECT_EQ(sync_wait(sim, value_of(task)), 42);
}

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

TEST(AwaitHandle, ASecondCoroutineThatAwaitsAHandleIsRefusedAndTheFirstGoesOn) {
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

TEST(AwaitHandle, OfManyBranchesThatAwaitAHandleOneGetsTheResult) {
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

TEST(AwaitHandleDeathTest, AHandleThatACoroutineAwaitsBecomesNoFuture) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto slow = executor.submit("a", "1", slow_answer);
  auto waiter = executor.submit("b", "2", [&] { return value_of(slow); });
  sim.run_ready();
  EXPECT_DEATH((void)to_future(std::move(slow)), "a coroutine awaits");
  EXPECT_EQ(waiter.join().value(), 42);
}

TEST(AwaitHandle, AHandleCanBeAwaitedAgainAfterAStopOrATimeout) {
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

TEST(AwaitHandle, AHandleCanBeAwaitedAgainAfterAWaitThatWasRefused) {
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

TEST(AwaitHandle, AThreadMayJoinAHandleThatACoroutineAwaits) {
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

TEST(AwaitHandle, WhatAwaitThrowsIsThrownByCoAwait) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.queue_threshold = 0}}, sim);
  auto await_it = [](TaskHandle<int> handle) -> Task<int> { co_return (co_await handle).value(); };
  auto running = executor.submit("a", "1", answer);
  EXPECT_THROW(sync_wait(sim, await_it(executor.submit("a", "2", answer))), RejectedError);
  EXPECT_THROW(sync_wait(sim, await_it({})), Exception);
  EXPECT_THROW(sync_wait(sim, await_it(executor.submit("b", "3", []() -> int { throw 42; }))), int);
}

// ---- handles in with_timeout(), when_any() and when_all()

TEST(AwaitHandle, ATimeoutEndsTheWaitAndNotTheTask) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto outer = executor.submit("a", [&]() -> Task<std::string> {
    auto inner = executor.submit("b", "inner", []() -> Task<int> {
      co_await sleep_for(10ms);
      co_return 42;
    });
    std::string message;
    try {
      (void)co_await with_timeout(1ms, inner);
    } catch (const TimeoutError& error) {
      message = error.what();
    }
    EXPECT_FALSE(inner.is_done());
    const GroupResult<int> result = co_await with_timeout(1s, inner);
    EXPECT_EQ(result.value(), 42);
    co_return message;
  });
  sim.run_until_idle();
  EXPECT_EQ(outer.join().value(),
            "task \"inner\" of group \"b\" was not done in time; it goes on, and can be waited for "
            "again");
}

// The outer task has its permit again when the inner one has ended: after the timeout, but then there is a result.
TEST(AwaitHandle, ATimeoutGivesTheResultOfATaskThatHasEndedMeanwhile) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SimScheduler sim(seed);
    GroupExecutor executor({.global_max_in_flight = 1 + static_cast<int>(seed % 2)}, sim);
    auto outer = executor.submit("a", [&]() -> Task<int> {
      auto inner = executor.submit("a", [seed]() -> Task<int> {
        co_await sleep_for(seed % 3 * 1ms);
        co_return 42;
      });
      co_return (co_await with_timeout(1ms, inner)).value();
    });
    sim.run_until_idle();
    EXPECT_EQ(outer.join().value(), 42) << "seed " << seed;
  }
}

TEST(AwaitHandle, OfSeveralTheFirstEndsAndTheOthersCanBeAwaitedAgain) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.max_concurrency = 9}}, sim);
  const auto after = [](Duration time, int value) {
    return [time, value]() -> Task<int> {
      co_await sleep_for(time);
      co_return value;
    };
  };
  auto outer = executor.submit("a", [&]() -> Task<void> {
    std::vector<TaskHandle<int>> handles;
    for (int i = 1; i <= 3; ++i) handles.push_back(executor.submit("b", after(i * 10ms, i)));
    const auto first = co_await when_any(handles);
    EXPECT_EQ(first.index, 0U);
    EXPECT_EQ(first.value.value(), 1);
    handles.erase(handles.begin());
    auto fourth = executor.submit("b", after(1h, 4));
    const auto second = co_await when_any(fourth, handles.front(), after(1h, 5)());
    EXPECT_EQ(second.index, 1U);
    EXPECT_EQ(std::get<1>(second.value).value(), 2);
    const auto [third, sixth] = co_await when_all(handles.back(), after(1ms, 6)());
    EXPECT_EQ(third.value(), 3);
    EXPECT_EQ(sixth, 6);
    EXPECT_FALSE(fourth.is_done()) << "it was not cancelled";
    std::vector<TaskHandle<int>> more;
    for (int i = 1; i <= 3; ++i) more.push_back(executor.submit("b", after(i * 10ms, i)));
    const auto all = co_await when_all(more);
    EXPECT_EQ(all.at(2).value(), 3);
    fourth.cancel();
  });
  sim.run_until_idle();
  EXPECT_TRUE(outer.join().ok());
}

TEST(AwaitHandle, AWaitWithATimeoutGivesThePermitsBack) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.max_concurrency = 1}, .global_max_in_flight = 1}, sim);
  auto outer = executor.submit("a", [&]() -> Task<int> {
    auto inner = executor.submit("a", answer);
    co_return (co_await with_timeout(1s, inner)).value();
  });
  sim.run_until_idle();
  EXPECT_EQ(outer.join().value(), 42);
}

}  // namespace
}  // namespace keyway
