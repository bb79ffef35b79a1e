// What a coroutine can wait for: time, several tasks, a stop.
#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

Task<int> after(Duration time, int value) {
  co_await sleep_for(time);
  co_return value;
}

Task<int> fail_after(Duration time, std::string message) {
  co_await sleep_for(time);
  throw std::runtime_error(message);
}

Task<> request_stop_after(Duration time, std::stop_source& stop) {
  co_await sleep_for(time);
  stop.request_stop();
}

class TaskWaits : public ::testing::Test {
 protected:
  template <class T>
  T run(Task<T> task, std::stop_token stop = {}) {
    return sync_wait(sim_, std::move(task), std::move(stop));
  }
  Duration passed() const { return sim_.now() - start_; }

  testing::SimScheduler sim_;
  const TimePoint start_ = sim_.now();
  std::stop_source stop_;
};

// ---- sleep_for

TEST_F(TaskWaits, ASleepTakesItsTimeAndNoThread) {
  EXPECT_EQ(run(after(10min, 1)), 1);
  EXPECT_EQ(passed(), 10min);
}

TEST_F(TaskWaits, ASleepOfNoTimeOrLessEndsAtOnce) {
  EXPECT_EQ(run(after(0s, 1)), 1);
  EXPECT_EQ(run(after(-1h, 2)), 2);
  EXPECT_EQ(passed(), 0s);
}

TEST_F(TaskWaits, ASleepForTheLongestTimeThereIsLastsUntilItIsStopped) {
  const auto both = [&]() -> Task<> {
    std::vector<Task<int>> sleeper;
    sleeper.push_back(after(Duration::max(), 1));
    co_await when_all(when_all(std::move(sleeper)), request_stop_after(24h, stop_));
  };
  EXPECT_THROW(run(both(), stop_.get_token()), CancelledError);
  EXPECT_GE(passed(), 24h);
}

TEST_F(TaskWaits, AStopWakesASleepAtOnce) {
  const auto both = [&]() -> Task<> {
    co_await when_all(after(1h, 1), request_stop_after(1s, stop_));
  };
  EXPECT_THROW(run(both(), stop_.get_token()), CancelledError);
  EXPECT_EQ(passed(), 1s);
}

TEST_F(TaskWaits, ASleepThatBeginsAfterTheStopThrowsAtOnce) {
  stop_.request_stop();
  EXPECT_THROW(run(after(1h, 1), stop_.get_token()), CancelledError);
  EXPECT_EQ(passed(), 0s);
}

TEST_F(TaskWaits, ATaskMayCatchTheStopAndCleanUp) {
  const auto careful = []() -> Task<std::string> {
    try {
      co_await sleep_for(1h);
    } catch (const CancelledError& error) {
      co_return std::string(to_string(error.code()));
    }
    co_return "not stopped";
  };
  const auto both = [&]() -> Task<std::string> {
    auto [said, nothing] = co_await when_all(careful(), request_stop_after(1s, stop_));
    co_return said;
  };
  EXPECT_EQ(run(both(), stop_.get_token()), "cancelled");
}

TEST_F(TaskWaits, TheStopTokenIsThatOfWhoeverAwaitsIt) {
  const auto inner = []() -> Task<std::stop_token> { co_return co_await current_stop_token(); };
  const auto outer = [&]() -> Task<std::stop_token> { co_return co_await inner(); };
  EXPECT_EQ(run(outer(), stop_.get_token()), stop_.get_token());
  EXPECT_FALSE(run(outer()).stop_possible());
}

// ---- when_all

TEST_F(TaskWaits, WhenAllGivesTheValuesInTheOrderOfTheTasks) {
  const auto both = []() -> Task<std::string> {
    auto [a, b, c] = co_await when_all(after(3s, 1), after(1s, 2), after(2s, 3));
    co_return std::to_string(a) + std::to_string(b) + std::to_string(c);
  };
  EXPECT_EQ(run(both()), "123");
  EXPECT_EQ(passed(), 3s) << "they slept side by side";
}

TEST_F(TaskWaits, WhenAllTakesTasksOfAnyKind) {
  int number = 1;
  const auto nothing = []() -> Task<> { co_return; };
  const auto pointer = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(2); };
  const auto refer = [&]() -> Task<int&> { co_return number; };
  const auto all = [&]() -> Task<> {
    auto result = co_await when_all(nothing(), pointer(), refer(), after(1s, 4));
    static_assert(std::is_same_v<decltype(result),
                                 std::tuple<std::monostate, std::unique_ptr<int>, int&, int>>);
    EXPECT_EQ(*std::get<1>(result), 2);
    EXPECT_EQ(&std::get<2>(result), &number);
    EXPECT_EQ(std::get<3>(result), 4);
  };
  run(all());
}

TEST_F(TaskWaits, WhenAllOfNothingEndsAtOnce) {
  EXPECT_EQ(run(when_all()), std::tuple<>{});
  EXPECT_TRUE(run(when_all(std::vector<Task<int>>{})).empty());
}

TEST_F(TaskWaits, WhenAllOfAVectorGivesTheValuesInOrder) {
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 1000; ++i) tasks.push_back(after(std::chrono::seconds(1000 - i), i));
  const std::vector<int> values = run(when_all(std::move(tasks)));
  ASSERT_EQ(values.size(), 1000U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(passed(), 1000s);
}

TEST_F(TaskWaits, WhenAllOfAVectorOfNothingCountsWhatEnded) {
  std::vector<Task<>> tasks;
  int ran = 0;
  const auto count = [&]() -> Task<> {
    co_await sleep_for(1s);
    ++ran;
  };
  for (int i = 0; i < 10; ++i) tasks.push_back(count());
  EXPECT_EQ(run(when_all(std::move(tasks))).size(), 10U);
  EXPECT_EQ(ran, 10);
}

TEST_F(TaskWaits, WhenAllThrowsWhatTheFirstInOrderThrewAndOnlyWhenAllHaveEnded) {
  int ended = 0;
  const auto slow = [&]() -> Task<> {
    co_await sleep_for(5s);
    ++ended;
  };
  const auto message_of = [&](Task<> task) {
    try {
      run(std::move(task));
      return std::string("nothing thrown");
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  const auto both = [&]() -> Task<> {
    co_await when_all(after(1s, 1), fail_after(3s, "late"), fail_after(1s, "early"), slow());
  };
  EXPECT_EQ(message_of(both()), "late") << "the first in order of arguments, not of time";
  EXPECT_EQ(ended, 1);
  const auto vector = [&]() -> Task<> {
    std::vector<Task<int>> tasks;
    tasks.push_back(after(9s, 1));
    tasks.push_back(fail_after(3s, "second"));
    tasks.push_back(fail_after(1s, "third"));
    co_await when_all(std::move(tasks));
  };
  EXPECT_EQ(message_of(vector()), "second");
  EXPECT_EQ(passed(), 5s + 9s);
}

TEST_F(TaskWaits, WhenAllMayBeNested) {
  const auto sum = [](auto left, auto right) -> Task<int> {
    auto [a, b] = co_await when_all(std::move(left), std::move(right));
    co_return a + b;
  };
  EXPECT_EQ(run(sum(sum(after(1s, 1), after(2s, 2)), sum(after(3s, 3), after(4s, 4)))), 10);
  EXPECT_EQ(passed(), 4s);
}

// ---- on threads

TEST(TaskThreads, ManyTasksSideBySideOnAPoolAllEnd) {
  ThreadPool pool({.threads = 2});
  for (int round = 0; round < 5; ++round) {
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 2000; ++i) tasks.push_back(after(std::chrono::microseconds(i % 50), i));
    const std::vector<int> values = sync_wait(pool, when_all(std::move(tasks)));
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i);
  }
}

TEST(TaskThreads, AStopFromAnotherThreadWakesASleep) {
  ThreadPool pool({.threads = 1});
  std::stop_source stop;
  std::latch begun(1);
  const auto sleeper = [&]() -> Task<> {
    begun.count_down();
    co_await sleep_for(1h);
  };
  std::thread stopper([&] {
    begun.wait();
    stop.request_stop();
  });
  EXPECT_THROW(sync_wait(pool, sleeper(), stop.get_token()), CancelledError);
  stopper.join();
}

// The timer, the stop and the suspension itself may meet in any order.
TEST(TaskThreads, AStopMayMeetTheEndOfASleep) {
  ThreadPool pool({.threads = 2});
  int stopped = 0;
  for (int round = 0; round < 3000; ++round) {
    std::stop_source stop;
    std::atomic<bool> go{false};
    std::thread stopper([&] {
      while (!go) std::this_thread::yield();
      stop.request_stop();
    });
    const auto sleeper = [&]() -> Task<> {
      go = true;
      co_await sleep_for(std::chrono::microseconds(round % 30));
    };
    try {
      sync_wait(pool, sleeper(), stop.get_token());
    } catch (const CancelledError&) {
      ++stopped;
    }
    stopper.join();
  }
  RecordProperty("stopped", stopped);
}

}  // namespace
}  // namespace keyway
