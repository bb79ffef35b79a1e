#include "keyway/group_executor.h"

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/future.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// The error of a call that throws Exception.
template <class Call>
std::optional<ErrorCode> code_of(Call call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.code();
  }
  return std::nullopt;
}

// ---- what a task may be, and what it may return

int answer_function() { return 42; }
constexpr auto answer = [] { return 42; };

TEST(GroupExecutor, ATaskRunsAndItsHandleGivesTheResult) {
  GroupExecutor executor({});
  auto handle = executor.submit("vip", "task-1", [] { return std::string("page"); });
  EXPECT_EQ(handle.group_key(), "vip");
  EXPECT_EQ(handle.task_id(), "task-1");
  GroupResult<std::string> result = handle.join();
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.group_key, "vip");
  EXPECT_EQ(result.task_id, "task-1");
  EXPECT_EQ(result.status, TaskStatus::kSuccess);
  EXPECT_EQ(result.error, nullptr);
  EXPECT_EQ(result.value(), "page");
  EXPECT_TRUE(handle.is_done());
  EXPECT_GE(result.duration(), Duration::zero());
}

TEST(GroupExecutor, ATaskMayReturnNothingAMoveOnlyValueOrAReference) {
  GroupExecutor executor({});
  GroupResult<void> nothing = executor.submit("g", "1", [] {}).join();
  EXPECT_TRUE(nothing.ok());
  nothing.value();

  auto moved = executor.submit("g", "2", [] { return std::make_unique<int>(7); }).join();
  const std::unique_ptr<int> kept = std::move(moved.value());
  EXPECT_EQ(*kept, 7);

  int target = 1;
  GroupResult<int&> reference = executor.submit("g", "3", [&]() -> int& { return target; }).join();
  EXPECT_EQ(&reference.value(), &target);
  GroupResult<const int&> constant =
      executor.submit("g", "4", [&]() -> const int& { return target; }).join();
  EXPECT_EQ(&constant.value(), &target);
}

TEST(GroupExecutor, AValueWithALargeAlignmentIsKeptAligned) {
  static std::atomic<int> misplaced;
  struct alignas(64) Wide {
    Wide() = default;
    Wide(Wide&& other) noexcept : number(other.number) {
      if (reinterpret_cast<std::uintptr_t>(this) % 64 != 0) ++misplaced;
    }
    Wide& operator=(Wide&&) = default;
    int number = 5;
  };
  GroupExecutor executor({});
  std::vector<TaskHandle<Wide>> handles;
  for (int i = 0; i < 20; ++i) {
    handles.push_back(executor.submit("g", std::to_string(i), [] { return Wide(); }));
  }
  for (auto& handle : handles) EXPECT_EQ(handle.join().value().number, 5);
  EXPECT_EQ(misplaced, 0);
}

TEST(GroupExecutor, ATaskMayBeAnyCallable) {
  GroupExecutor executor({});
  EXPECT_EQ(executor.submit("g", "lambda", answer).join().value(), 42);
  EXPECT_EQ(executor.submit("g", "pointer", &answer_function).join().value(), 42);
  const std::function<int()> function = answer;
  EXPECT_EQ(executor.submit("g", "std::function", function).join().value(), 42);
  auto move_only = [kept = std::make_unique<int>(42)] { return *kept; };
  EXPECT_EQ(executor.submit("g", "move-only", std::move(move_only)).join().value(), 42);
  auto changes_itself = [count = 41]() mutable { return ++count; };
  EXPECT_EQ(executor.submit("g", "mutable", changes_itself).join().value(), 42);
  EXPECT_EQ(executor.submit("g", "copy", changes_itself).join().value(), 42);
  const std::array<char, 4000> big{1};
  EXPECT_EQ(executor.submit("g", "big", [big] { return big[0] + 41; }).join().value(), 42);
}

TEST(GroupExecutor, ATaskMayTakeAStopToken) {
  GroupExecutor executor({});
  const std::function<bool(std::stop_token)> function = [](const std::stop_token& stop) {
    return stop.stop_possible() && !stop.stop_requested();
  };
  EXPECT_TRUE(executor.submit("g", "1", function).join().value());
}

TEST(GroupExecutor, ATaskMayBeACoroutineThatHoldsNoThreadWhileItWaits) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.max_concurrency = kUnlimited}}, sim);
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 1000; ++i) {
    handles.push_back(executor.submit("g", std::to_string(i), [i]() -> Task<int> {
      co_await sleep_for(10min);
      co_return i;
    }));
  }
  const TimePoint began = sim.now();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(handles[static_cast<std::size_t>(i)].join().value(), i);
  EXPECT_EQ(sim.now() - began, 10min);
}

TEST(GroupExecutor, CoroutineTasksGiveWhatTheirCoroutinesReturn) {
  GroupExecutor executor({});
  int target = 0;
  auto reference = executor.submit("g", "1", [&]() -> Task<int&> { co_return target; }).join();
  EXPECT_EQ(&reference.value(), &target);
  auto moved = executor.submit("g", "2", []() -> Task<std::unique_ptr<int>> {
    co_await sleep_for(1us);
    co_return std::make_unique<int>(7);
  });
  EXPECT_EQ(*moved.join().value(), 7);
  auto nothing = executor.submit("g", "3", [](std::stop_token stop) -> Task<void> {
    const std::stop_token same = co_await current_stop_token();
    if (same != stop) throw std::logic_error("two tokens");
  });
  EXPECT_TRUE(nothing.join().ok());
}

// ---- tasks that throw

TEST(GroupExecutor, WhateverATaskThrowsReachesItsHandle) {
  GroupExecutor executor({});
  auto standard =
      executor.submit("g", "1", []() -> int { throw std::runtime_error("broken"); }).join();
  EXPECT_EQ(standard.status, TaskStatus::kFailed);
  EXPECT_THROW(standard.value(), std::runtime_error);
  auto number = executor.submit("g", "2", [] { throw 42; }).join();
  EXPECT_EQ(number.status, TaskStatus::kFailed);
  EXPECT_THROW(number.value(), int);
  auto coroutine = executor.submit("g", "3", []() -> Task<int> {
    co_await sleep_for(1us);
    throw 42;
  });
  EXPECT_THROW(coroutine.join().value(), int);
  auto before_its_coroutine = executor.submit("g", "4", []() -> Task<void> { throw 42; });
  EXPECT_THROW(before_its_coroutine.join().value(), int);
  EXPECT_TRUE(executor.submit("g", "5", answer).join().ok());
}

TEST(GroupExecutor, ATaskThatThrowsCancelledErrorEndsCancelled) {
  GroupExecutor executor({});
  auto result = executor.submit("g", "1", [] { throw CancelledError("enough"); }).join();
  EXPECT_EQ(result.status, TaskStatus::kCancelled);
  EXPECT_THROW(result.value(), CancelledError);
}

// ---- waiting

TEST(GroupExecutor, AWaitThatTimesOutLeavesTheTaskAlone) {
  GroupExecutor executor({});
  std::latch go(1);
  auto handle = executor.submit("g", "1", [&] { return go.wait(), 42; });
  for (auto result : {handle.join_for(1ms), handle.await_for(0ms), handle.join_for(-1h)}) {
    EXPECT_EQ(result.status, TaskStatus::kTimedOut);
    EXPECT_THROW(result.value(), TimeoutError);
    EXPECT_EQ(result.task_id, "1");
  }
  EXPECT_FALSE(handle.is_done());
  go.count_down();
  EXPECT_EQ(handle.join_for(Duration::max()).value(), 42);
}

TEST(GroupExecutor, AWaitTimesOutInTheTimeOfItsScheduler) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto nap = []() -> Task<int> {
    co_await sleep_for(10min);
    co_return 42;
  };
  auto handle = executor.submit("g", "1", nap);
  EXPECT_THROW(handle.join_for(9min).value(), TimeoutError);
  EXPECT_EQ(handle.join_for(2min).value(), 42);
}

TEST(GroupExecutor, AStopEndsAWaitByExceptionInAwaitAndByResultInJoin) {
  GroupExecutor executor({});
  std::latch go(1);
  auto handle = executor.submit("g", "1", [&] { return go.wait(), 42; });
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_THROW((void)handle.await(stop.get_token()), CancelledError);
  GroupResult<int> result = handle.join(stop.get_token());
  EXPECT_EQ(result.status, TaskStatus::kCancelled);
  EXPECT_THROW(result.value(), CancelledError);
  EXPECT_THROW((void)handle.await_for(1h, stop.get_token()), CancelledError);
  EXPECT_EQ(handle.join_for(1h, stop.get_token()).status, TaskStatus::kCancelled);
  go.count_down();
  EXPECT_EQ(handle.await().value(), 42);
}

TEST(GroupExecutor, ASecondHelpingOfAResultIsRefused) {
  GroupExecutor executor({});
  auto handle = executor.submit("g", "1", answer);
  EXPECT_EQ(handle.join().value(), 42);
  EXPECT_EQ(code_of([&] { (void)handle.join(); }), ErrorCode::kResultTaken);
  EXPECT_EQ(code_of([&] { (void)handle.await_for(1s); }), ErrorCode::kResultTaken);
  EXPECT_TRUE(handle.is_done());
}

TEST(GroupExecutor, AnEmptyHandleRefusesEveryCall) {
  GroupExecutor executor({});
  TaskHandle<int> moved_from = executor.submit("g", "1", answer);
  TaskHandle<int> full = std::move(moved_from);
  TaskHandle<int> empty;
  for (TaskHandle<int>* handle : {&moved_from, &empty}) {
    EXPECT_EQ(code_of([&] { (void)handle->join(); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { (void)handle->is_done(); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { (void)handle->cancel(); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { (void)handle->task_id(); }), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(full.join().value(), 42);
}

TEST(GroupExecutor, AGroupHandleThatWasMovedFromRefusesEveryCall) {
  GroupExecutor executor({});
  GroupHandle moved_from = executor.group("g");
  GroupHandle full = std::move(moved_from);
  EXPECT_EQ(code_of([&] { (void)moved_from.submit(answer); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)moved_from.post("1", answer); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)moved_from.try_submit(answer); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)moved_from.key(); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(full.submit(answer).join().value(), 42);
}

TEST(GroupExecutor, ADroppedHandleDoesNotCancelItsTask) {
  std::atomic<int> ran = 0;
  GroupExecutor executor({});
  for (int i = 0; i < 10; ++i) {
    (void)executor.submit("g", "1", [&](const std::stop_token& stop) {
      if (!stop.stop_requested()) ++ran;
    });
  }
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_EQ(ran, 10);
}

TEST(GroupExecutor, AHandleMayOutliveItsExecutor) {
  auto executor = std::make_unique<GroupExecutor>(GroupPolicy{});
  auto handle = executor->submit("g", "1", [] { return std::make_unique<int>(42); });
  auto dropped = executor->submit("g", "2", [] { return std::make_unique<int>(42); });
  EXPECT_TRUE(executor->shutdown(1h));
  executor.reset();
  EXPECT_FALSE(handle.cancel());
  EXPECT_EQ(*handle.join_for(1s).value(), 42);
}

TEST(GroupExecutor, ATasksDurationExcludesItsWaiting) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  auto nap = []() -> Task<void> { co_await sleep_for(10s); };
  auto first = executor.submit("g", "1", nap);
  auto second = executor.submit("g", "2", nap);
  const GroupResult<void> result = second.join();
  EXPECT_EQ(result.duration(), 10s);
  EXPECT_EQ(result.started, first.join().ended);
}

TEST(GroupExecutor, ATaskDoesNotStartBeforeItWasSubmitted) {
  GroupExecutor executor({});
  Duration earliest{0};
  for (int i = 0; i < 1000; ++i) {
    const TimePoint submitted = std::chrono::steady_clock::now();
    auto handle = executor.submit("g", "1", [] {});
    earliest = std::min(earliest, handle.join().started - submitted);
  }
  EXPECT_GE(earliest, -1us);  // timestamps are exact to a microsecond
}

// ---- cancelling

TEST(GroupExecutor, ACancelledWaitingTaskEndsAtOnceAndNeverRuns) {
  GroupExecutor executor({});
  std::latch go(1);
  std::atomic<bool> ran = false;
  auto running = executor.submit("g", "1", [&] { go.wait(); });
  auto waiting = executor.submit("g", "2", [&] { ran = true; });
  EXPECT_TRUE(waiting.cancel());
  EXPECT_TRUE(waiting.is_done());
  EXPECT_FALSE(waiting.cancel());
  GroupResult<void> result = waiting.join();
  EXPECT_EQ(result.status, TaskStatus::kCancelled);
  EXPECT_THROW(result.value(), CancelledError);
  EXPECT_EQ(result.duration(), Duration::zero());
  go.count_down();
  EXPECT_TRUE(running.join().ok());
  EXPECT_FALSE(ran);
}

TEST(GroupExecutor, ACancelledRunningTaskGetsAStopRequest) {
  GroupExecutor executor({});
  std::latch running(1);
  auto handle = executor.submit("g", "1", [&](const std::stop_token& stop) {
    std::latch stopped(1);
    const std::stop_callback callback(stop, [&] { stopped.count_down(); });
    running.count_down();
    stopped.wait();
    throw CancelledError();
  });
  running.wait();
  EXPECT_TRUE(handle.cancel());
  EXPECT_EQ(handle.join().status, TaskStatus::kCancelled);
  EXPECT_FALSE(handle.cancel());
}

TEST(GroupExecutor, ARunningTaskThatCannotHearAStopRequestIsNotCancelled) {
  GroupExecutor executor({});
  std::latch running(1);
  std::latch go(1);
  auto handle = executor.submit("g", "1", [&] { return running.count_down(), go.wait(), 42; });
  running.wait();
  EXPECT_FALSE(handle.cancel());
  go.count_down();
  EXPECT_EQ(handle.join().value(), 42);
}

TEST(GroupExecutor, ACancelledCoroutineWakesFromItsSleep) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  const TimePoint began = sim.now();
  auto handle = executor.submit("g", "1", []() -> Task<void> { co_await sleep_for(10min); });
  sim.run_ready();
  EXPECT_TRUE(handle.cancel());
  EXPECT_EQ(handle.join().status, TaskStatus::kCancelled);
  EXPECT_EQ(sim.now(), began);
}

// ---- futures, tasks without a handle

TEST(GroupExecutor, AHandleBecomesAFuture) {
  GroupExecutor executor({.groups = {{"full", {.queue_threshold = 0}}}});
  std::latch go(1);
  auto pending = executor.submit("full", "1", [&] { return go.wait(), 42; });
  std::future<GroupResult<int>> future = to_future(std::move(pending));
  EXPECT_EQ(code_of([&] { (void)pending.is_done(); }), ErrorCode::kInvalidArgument);
  auto rejected = to_future(executor.submit("full", "2", answer));
  EXPECT_THROW((void)rejected.get(), RejectedError);
  go.count_down();
  EXPECT_EQ(future.get().value(), 42);
  auto done = executor.submit("g", "3", [] { throw 42; });
  while (!done.is_done()) std::this_thread::yield();
  EXPECT_THROW(to_future(std::move(done)).get().value(), int);
}

// Seen by the leak check of the address sanitizer.
TEST(GroupExecutor, AnEmptyHandleBecomesNoFutureAndLeaksNothing) {
  TaskHandle<int> empty;
  EXPECT_EQ(code_of([&] { (void)to_future(std::move(empty)); }), ErrorCode::kInvalidArgument);
}

TEST(GroupExecutor, APostedTaskRunsWithoutAHandle) {
  GroupExecutor executor({});
  std::atomic<int> ran = 0;
  EXPECT_TRUE(executor.post("g", [&] { ++ran; }).ok());
  EXPECT_TRUE(executor.post("g", [&, kept = std::make_unique<int>(1)] { ran += *kept; }).ok());
  EXPECT_TRUE(executor.post("g", [] { throw 42; }).ok());
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(executor.stats().failed, 1U);
}

}  // namespace
}  // namespace keyway
