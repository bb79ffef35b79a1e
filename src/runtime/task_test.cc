#include "keyway/task.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "support/jobs.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

template <class T>
Task<T> give(T value) {
  co_return std::move(value);
}

// Runs a task to its end without threads.
template <class T>
T run(Task<T> task) {
  testing::SimScheduler sim;
  return sync_wait(sim, std::move(task));
}

TEST(Task, GivesTheValueItReturns) {
  EXPECT_EQ(run(give(42)), 42);
  EXPECT_EQ(run(give(std::string("page"))), "page");
}

TEST(Task, GivesAMoveOnlyValue) {
  EXPECT_EQ(*run(give(std::make_unique<int>(42))), 42);
  const auto pass_on = []() -> Task<std::unique_ptr<int>> {
    std::unique_ptr<int> value = co_await give(std::make_unique<int>(1));
    ++*value;
    co_return value;
  };
  EXPECT_EQ(*run(pass_on()), 2);
}

TEST(Task, GivesAReferenceToTheThingItself) {
  int number = 1;
  const auto refer = [](int& to) -> Task<int&> { co_return to; };
  EXPECT_EQ(&run(refer(number)), &number);
  const auto change = [&]() -> Task<> { (co_await refer(number))++; };
  run(change());
  EXPECT_EQ(number, 2);
  const auto look = [](const int& at) -> Task<const int&> { co_return at; };
  EXPECT_EQ(&run(look(number)), &number);
}

TEST(Task, ConvertsWhatItReturns) {
  const auto text = []() -> Task<std::string> { co_return "page"; };
  EXPECT_EQ(run(text()), "page");
  struct Strict {
    explicit Strict(int v) : value(v) {}
    int value;
  };
  const auto strict = []() -> Task<Strict> { co_return Strict(3); };
  EXPECT_EQ(run(strict()).value, 3);
}

TEST(Task, OfNothingJustEnds) {
  bool ran = false;
  const auto nothing = [&]() -> Task<> {
    ran = true;
    co_return;
  };
  run(nothing());
  EXPECT_TRUE(ran);
}

TEST(Task, StartsWhenItIsAwaitedAndNotBefore) {
  std::vector<std::string> order;
  const auto inner = [&]() -> Task<> {
    order.emplace_back("inner");
    co_return;
  };
  const auto outer = [&]() -> Task<> {
    Task<> task = inner();
    order.emplace_back("outer");
    co_await std::move(task);
    order.emplace_back("after");
  };
  run(outer());
  EXPECT_EQ(order, (std::vector<std::string>{"outer", "inner", "after"}));
}

TEST(Task, ThatIsNeverAwaitedIsDestroyedUnrunWithItsArguments) {
  const auto argument = std::make_shared<int>(1);
  bool ran = false;
  const auto never = [](std::shared_ptr<int>, bool& flag) -> Task<> {
    flag = true;
    co_return;
  };
  {
    const Task<> task = never(argument, ran);
    EXPECT_EQ(argument.use_count(), 2);
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(argument.use_count(), 1);
}

TEST(Task, FreesWhatItHoldsWhenItHasEnded) {
  const auto held = std::make_shared<int>(1);
  const auto hold = [](std::shared_ptr<int> mine) -> Task<int> {
    const std::shared_ptr<int> copy = mine;
    co_await sleep_for(1s);
    co_return *copy;
  };
  EXPECT_EQ(run(hold(held)), 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Task, MayBeMovedBeforeItRuns) {
  Task<int> first = give(1);
  Task<int> second = std::move(first);
  Task<int> third = give(3);
  third = std::move(second);
  EXPECT_EQ(run(std::move(third)), 1);
}

TEST(Task, WhatItThrowsReachesWhoeverAwaitsIt) {
  const auto fail = [](bool late) -> Task<int> {
    if (late) co_await sleep_for(1s);
    throw std::runtime_error("no page");
  };
  const auto outer = [&](bool late) -> Task<std::string> {
    try {
      co_return std::to_string(co_await fail(late));
    } catch (const std::runtime_error& error) {
      co_return error.what();
    }
  };
  EXPECT_EQ(run(outer(false)), "no page");
  EXPECT_EQ(run(outer(true)), "no page");
  EXPECT_THROW(run(fail(false)), std::runtime_error);
  const auto passes_through = [&]() -> Task<int> { co_return 1 + co_await fail(true); };
  EXPECT_THROW(run(passes_through()), std::runtime_error);
  const auto throws_a_number = []() -> Task<> {
    throw 42;
    co_return;
  };
  EXPECT_THROW(run(throws_a_number()), int);
}

// ---- stack

// How much stack lies between the highest and the lowest place where it was looked at.
class StackMeter {
 public:
  void look() {
    // Not the address of a variable: a sanitizer may keep those elsewhere.
    const auto address = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    lowest_ = std::min(lowest_, address);
    highest_ = std::max(highest_, address);
  }
  std::uintptr_t bytes() const { return highest_ - lowest_; }

 private:
  std::uintptr_t lowest_ = UINTPTR_MAX;
  std::uintptr_t highest_ = 0;
};

Task<int> end_at_once(StackMeter& meter) {
  meter.look();
  co_return 1;
}

Task<int> await_many(StackMeter& meter, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await end_at_once(meter);
  co_return sum;
}

constexpr std::uintptr_t kLittleStack = 16 * 1024;

TEST(Task, AMillionAwaitsOfTasksThatEndAtOnceNeedNoStack) {
  StackMeter few;
  EXPECT_EQ(run(await_many(few, 1000)), 1000);
  ASSERT_LT(few.bytes(), kLittleStack) << "a million would overflow the stack";
  StackMeter many;
  EXPECT_EQ(run(await_many(many, 1'000'000)), 1'000'000);
  EXPECT_LT(many.bytes(), kLittleStack);
}

Task<int> descend(StackMeter& meter, int depth) {
  meter.look();
  if (depth == 0) co_return 0;
  const int below = co_await descend(meter, depth - 1);
  meter.look();
  co_return below + 1;
}

TEST(Task, AChainOfTasksThatAwaitEachOtherNeedsNoStack) {
  StackMeter shallow;
  EXPECT_EQ(run(descend(shallow, 1000)), 1000);
  ASSERT_LT(shallow.bytes(), kLittleStack) << "a deep one would overflow the stack";
  StackMeter deep;
  EXPECT_EQ(run(descend(deep, 100'000)), 100'000);
  EXPECT_LT(deep.bytes(), kLittleStack);
}

// ---- on threads

Task<std::thread::id> sleep_and_tell_thread() {
  co_await sleep_for(1ms);
  co_return std::this_thread::get_id();
}

TEST(SyncWait, RunsATaskOnAPoolAndBlocksUntilItHasEnded) {
  ThreadPool pool({.threads = 2});
  EXPECT_NE(sync_wait(pool, sleep_and_tell_thread()), std::this_thread::get_id());
  EXPECT_EQ(sync_wait(pool, give(1)), 1);
  const auto fail = []() -> Task<> {
    co_await sleep_for(1ms);
    throw std::runtime_error("no page");
  };
  EXPECT_THROW(sync_wait(pool, fail()), std::runtime_error);
}

TEST(SyncWait, ManyThreadsMayWaitAtOnce) {
  ThreadPool pool({.threads = 2});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const auto nap = [](int number) -> Task<int> {
          co_await sleep_for(std::chrono::microseconds(number % 40));
          co_return number;
        };
        ASSERT_EQ(sync_wait(pool, nap(round)), round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SyncWait, MayBeCalledByTheOnlyThreadOfThePool) {
  ThreadPool pool({.threads = 1});
  std::latch done(1);
  Job job([&] {
    static_cast<void>(sync_wait(pool, sleep_and_tell_thread()));
    done.count_down();
  });
  pool.post(job);
  done.wait();
  pool.wait_for_turns_in_progress();
}

TEST(SyncWait, MakesStepsOfASchedulerWithoutThreads) {
  testing::SimScheduler sim;
  const TimePoint start = sim.now();
  const auto nap = []() -> Task<int> {
    co_await sleep_for(10min);
    co_return 1;
  };
  EXPECT_EQ(sync_wait(sim, nap()), 1);
  EXPECT_EQ(sim.now() - start, 10min);
}

TEST(TaskDeathTest, OneThatWasMovedFromIsNotAwaited) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto waits_for_moved = [] {
    testing::SimScheduler sim;
    Task<int> task = []() -> Task<int> { co_return 1; }();
    const Task<int> moved = std::move(task);
    static_cast<void>(sync_wait(sim, std::move(task)));  // NOLINT: moved from on purpose
  };
  const auto awaits_moved = [] {
    testing::SimScheduler sim;
    Task<int> task = []() -> Task<int> { co_return 1; }();
    const Task<int> moved = std::move(task);
    const auto await = [](Task<int>* awaited) -> Task<int> {
      co_return co_await std::move(*awaited);
    };
    static_cast<void>(sync_wait(sim, await(&task)));  // NOLINT: moved from on purpose
  };
  EXPECT_DEATH(waits_for_moved(), "a Task that was moved from is awaited or run");
  EXPECT_DEATH(awaits_moved(), "a Task that was moved from is awaited or run");
}

// Not a death, but a life in another process: nothing could end a wait in vain there but its end.
TEST(SyncWaitDeathTest, MayBeCalledByTheOnlyThreadThereMayBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto returns_in_time = [] {
    ThreadPool pool({.threads = 1, .max_threads = 1});
    std::atomic<bool> over{false};
    Job job([&] {
      static_cast<void>(sync_wait(pool, sleep_and_tell_thread()));
      over = true;
    });
    pool.post(job);
    const auto give_up = std::chrono::steady_clock::now() + 10s;
    while (!over && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    std::_Exit(over ? EXIT_SUCCESS : EXIT_FAILURE);
  };
  EXPECT_EXIT(returns_in_time(), ::testing::ExitedWithCode(EXIT_SUCCESS), "");
}

}  // namespace
}  // namespace keyway
