#include "keyway/when_any.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

template <class T>
Task<T> after(Duration time, T value) {
  co_await sleep_for(time);
  co_return std::move(value);
}

Task<int> fail_after(Duration time) {
  co_await sleep_for(time);
  throw std::runtime_error("failed");
}

Task<void> nap(Duration time) { co_await sleep_for(time); }

// Ends this long after it was asked to stop.
Task<int> linger(Duration time, bool& ended) {
  try {
    co_await sleep_for(1h);
  } catch (const CancelledError&) {
  }
  Task<void> last = detail::with_stop(std::stop_token(), nap(time));
  co_await std::move(last);
  ended = true;
  co_return -1;
}

TEST(WhenAny, GivesTheIndexAndTheValueOfTheFirstToEnd) {
  SimScheduler sim;
  const TimePoint began = sim.now();
  const auto first =
      sync_wait(sim, when_any(after(20ms, 1), after(10ms, std::string("page")), nap(30ms)));
  EXPECT_EQ(first.index, 1U);
  EXPECT_EQ(std::get<1>(first.value), "page");
  EXPECT_EQ(sim.now() - began, 10ms) << "the others were asked to stop";
}

TEST(WhenAny, OfTasksWithoutAValueGivesTheirIndex) {
  SimScheduler sim;
  EXPECT_EQ(sync_wait(sim, when_any(nap(2ms), nap(1ms))).index, 1U);
}

TEST(WhenAny, GivesAMoveOnlyValue) {
  SimScheduler sim;
  auto first = sync_wait(sim, when_any(after(1ms, std::make_unique<int>(7)), nap(2ms)));
  EXPECT_EQ(*std::get<0>(first.value), 7);
}

TEST(WhenAny, OfAVectorGivesTheFirstOfThem) {
  SimScheduler sim;
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(after(std::chrono::milliseconds(10 - i), i));
  const WhenAnyOf<int> first = sync_wait(sim, when_any(std::move(tasks)));
  EXPECT_EQ(first.index, 9U);
  EXPECT_EQ(first.value, 9);
  EXPECT_THROW(static_cast<void>(sync_wait(sim, when_any(std::vector<Task<int>>()))), Exception);
}

TEST(WhenAny, ReturnsWhenTheOthersHaveEnded) {
  SimScheduler sim;
  bool ended = false;
  const TimePoint began = sim.now();
  EXPECT_EQ(sync_wait(sim, when_any(linger(5ms, ended), after(10ms, 1))).index, 1U);
  EXPECT_TRUE(ended);
  EXPECT_EQ(sim.now() - began, 15ms);
}

TEST(WhenAny, ThrowsWhatTheFirstThrewWhenTheOthersHaveEnded) {
  SimScheduler sim;
  bool ended = false;
  EXPECT_THROW(static_cast<void>(sync_wait(sim, when_any(linger(5ms, ended), fail_after(1ms)))),
               std::runtime_error);
  EXPECT_TRUE(ended);
  EXPECT_EQ(sync_wait(sim, when_any(fail_after(2ms), after(1ms, 1))).index, 1U)
      << "what the others throw is not heard";
}

TEST(WhenAny, DoesNotStartWhatComesAfterATaskThatEndsAtOnce) {
  SimScheduler sim;
  const auto never = []() -> Task<int> {
    ADD_FAILURE() << "it was started";
    co_return 0;
  };
  const auto at_once = []() -> Task<int> { co_return 1; };
  EXPECT_EQ(sync_wait(sim, when_any(at_once(), never())).index, 0U);
  EXPECT_EQ(sync_wait(sim, when_any(nap(1h), at_once(), never())).index, 1U);
}

TEST(WhenAny, AStopRequestReachesAll) {
  SimScheduler sim;
  std::stop_source stop;
  bool ended = false;
  const auto stop_later = [&]() -> Task<void> {
    Task<void> wait = detail::with_stop(std::stop_token(), nap(3ms));
    co_await std::move(wait);
    stop.request_stop();
    co_await nap(1h);
  };
  const TimePoint began = sim.now();
  EXPECT_THROW(static_cast<void>(sync_wait(sim, when_any(nap(1h), linger(2ms, ended), stop_later()),
                                           stop.get_token())),
               CancelledError);
  EXPECT_TRUE(ended);
  EXPECT_EQ(sim.now() - began, 5ms);
}

TEST(WhenAny, CanBeNested) {
  SimScheduler sim;
  const auto inner = []() -> Task<int> {
    const auto first = co_await when_any(after(5ms, 1), after(3ms, 2));
    co_return std::get<1>(first.value);
  };
  const auto first = sync_wait(sim, when_any(inner(), nap(4ms)));
  EXPECT_EQ(first.index, 0U);
  EXPECT_EQ(std::get<0>(first.value), 2);
}

TEST(WhenAnyThreads, ExactlyOneWinsAndNoneRunsAfterwards) {
  ThreadPool pool({.threads = 4});
  for (int round = 0; round < 2'000; ++round) {
    std::atomic<int> running{0};
    const auto runner = [&](int value) -> Task<int> {
      ++running;
      try {
        co_await sleep_for(std::chrono::microseconds(round % 3 * 20));
      } catch (const CancelledError&) {
        --running;
        throw;
      }
      --running;
      co_return value;
    };
    std::stop_source stop;
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 4; ++i) tasks.push_back(runner(i));
    const WhenAnyOf<int> first = sync_wait(pool, when_any(std::move(tasks)), stop.get_token());
    ASSERT_EQ(static_cast<int>(first.index), first.value);
    ASSERT_EQ(running, 0) << "in round " << round;
  }
}

TEST(WhenAnyThreads, AStopRequestMayComeAtAnyMoment) {
  ThreadPool pool({.threads = 4});
  for (int round = 0; round < 500; ++round) {
    std::stop_source stop;
    pool.execute([stop]() mutable { stop.request_stop(); });
    try {
      static_cast<void>(sync_wait(pool, when_any(nap(10us), nap(20us)), stop.get_token()));
    } catch (const CancelledError&) {
    }
  }
}

TEST(WithTimeout, GivesWhatATaskInTimeGives) {
  SimScheduler sim;
  const TimePoint began = sim.now();
  EXPECT_EQ(sync_wait(sim, with_timeout(10ms, after(5ms, 42))), 42);
  EXPECT_EQ(sim.now() - began, 5ms);
  EXPECT_NO_THROW(sync_wait(sim, with_timeout(10ms, nap(5ms))));
  EXPECT_THROW(sync_wait(sim, with_timeout(10ms, fail_after(5ms))), std::runtime_error);
  int number = 1;
  const auto refer = [&]() -> Task<int&> { co_return number; };
  EXPECT_EQ(&sync_wait(sim, with_timeout(10ms, refer())), &number);
}

TEST(WithTimeout, ThrowsWhenALateTaskHasEnded) {
  SimScheduler sim;
  bool ended = false;
  const TimePoint began = sim.now();
  EXPECT_THROW(static_cast<void>(sync_wait(sim, with_timeout(10ms, linger(5ms, ended)))),
               TimeoutError);
  EXPECT_TRUE(ended);
  EXPECT_EQ(sim.now() - began, 15ms);
  EXPECT_THROW(sync_wait(sim, with_timeout(-1ms, nap(1h))), TimeoutError);
}

TEST(WithTimeout, SaysHowLongItWaited) {
  SimScheduler sim;
  try {
    sync_wait(sim, with_timeout(10ms, nap(1h)));
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("10 ms"), std::string::npos) << error.what();
  }
}

TEST(WithTimeout, AStopRequestIsNotATimeout) {
  SimScheduler sim;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(sync_wait(sim, with_timeout(10ms, nap(1h)), stop.get_token()), CancelledError);
  bool ended = false;
  EXPECT_EQ(sync_wait(sim, with_timeout(10ms, linger(5ms, ended)), stop.get_token()), -1);
}

}  // namespace
}  // namespace keyway
