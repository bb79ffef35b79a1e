// Full queues, callers who run their own work, and a time to begin.
#include <atomic>
#include <cstdlib>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/serial_dispatcher.h"
#include "keyway/testing/sim_scheduler.h"
#include "serial/serial_fixture.h"
#include "support/jobs.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

using SerialBounds = SerialRoutings;
INSTANTIATE_TEST_SUITE_P(Routing, SerialBounds,
                         ::testing::Values(Routing::kPerKey, Routing::kSticky), name_of_routing);

void wait_for_callers(const SerialDispatcher& dispatcher, std::uint64_t count) {
  EXPECT_TRUE(eventually([&] { return dispatcher.stats().callers_in_line >= count; }));
}

std::uint64_t seed_from_environment() {
  const char* text = std::getenv("KEYWAY_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device()();
}

// ---- fail fast

TEST_P(SerialBounds, AFullQueueRejectsWithARetryableError) {
  SerialDispatcher dispatcher(options({.queue_capacity = 3}));
  bool ran = false;
  {
    Busy busy(dispatcher, "signer");
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(dispatcher.post("signer", [] {}));
    const std::vector<Error> errors{
        dispatcher.run("signer", [&] { ran = true; }).error(),
        dispatcher.try_run_for("signer", 1h, [&] { ran = true; }).error(),
        dispatcher.dispatch("signer", [&] { ran = true; }).error(),
        dispatcher.post("signer", [&] { ran = true; }).error(),
    };
    for (const Error& error : errors) {
      EXPECT_EQ(error.code, ErrorCode::kRejected);
      EXPECT_TRUE(error.retryable);
      EXPECT_NE(error.message.find("\"signer\""), std::string::npos) << error.message;
      EXPECT_EQ(error.group_key, "signer");
      EXPECT_EQ(error.rejection, RejectionReason::kQueueFull);
    }
    EXPECT_EQ(dispatcher.stats().rejected, 4U);
    EXPECT_EQ(dispatcher.stats().waiting, 3U);
    EXPECT_TRUE(dispatcher.run(key_apart_from(dispatcher, "signer"), [] {}));
  }
  EXPECT_TRUE(dispatcher.shutdown(1h));
  EXPECT_FALSE(ran);
}

TEST_P(SerialBounds, ARetryAfterARejectionSucceeds) {
  SerialDispatcher dispatcher(options({.queue_capacity = 0}));
  std::atomic<int> ran = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        Result<void> result = Error{ErrorCode::kRejected, "", true};
        while (!result && result.error().retryable) {
          result = dispatcher.run("signer", [&] { ++ran; });
        }
        EXPECT_TRUE(result);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(ran, 200);
}

// ---- the total

TEST_P(SerialBounds, TheTotalOfAllQueuesIsBounded) {
  SerialDispatcher dispatcher(options({.total_capacity = 2}));
  const std::string other = key_apart_from(dispatcher, "a");
  Busy busy(dispatcher, "a");
  Busy too(dispatcher, other);
  EXPECT_TRUE(dispatcher.post("a", [] {}));
  auto cancelled = dispatcher.dispatch(other, [] {});
  const Result<void> rejected = dispatcher.run(other, [] {});
  EXPECT_EQ(rejected.error().code, ErrorCode::kRejected);
  EXPECT_TRUE(rejected.error().retryable);
  EXPECT_NE(rejected.error().message.find("total_capacity"), std::string::npos);
  EXPECT_EQ(dispatcher.stats().rejected, 1U);
  EXPECT_TRUE(cancelled->cancel());  // its place is free at once
  EXPECT_TRUE(dispatcher.post(other, [] {}));
  EXPECT_FALSE(dispatcher.post(other, [] {}));
}

TEST_P(SerialBounds, NoPlaceOfTheTotalIsLostUnderRaces) {
  constexpr int kTotal = 16;
  SerialDispatcher dispatcher(options({.workers = 2, .total_capacity = kTotal}));
  std::atomic<int> begun = 0;
  std::atomic<int> cancelled = 0;
  std::atomic<int> taken = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 2000; ++n) {
        const std::string key = "key-" + std::to_string((n * 7 + i) % 5);
        auto handle = dispatcher.dispatch(key, [&] { ++begun; });
        if (handle) {
          ++taken;
          if (n % 3 == 0 && handle->cancel()) ++cancelled;
        } else {
          EXPECT_EQ(handle.error().code, ErrorCode::kRejected);
        }
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(eventually([&] {
    const SerialStats stats = dispatcher.stats();
    return stats.waiting + stats.running == 0;
  }));
  EXPECT_EQ(taken, begun + cancelled);
  Busy busy(dispatcher, "a");
  for (int i = 0; i < kTotal; ++i) EXPECT_TRUE(dispatcher.post("a", [] {})) << i;
  EXPECT_FALSE(dispatcher.post("a", [] {}));
}

// ---- the caller runs it

TEST_P(SerialBounds, ACallerRunsItsWorkInItsTurnOnItsOwnThread) {
  SerialDispatcher dispatcher(options({.queue_capacity = 2, .on_full = OnFull::kCallerRuns}));
  std::vector<int> order;
  std::thread::id ran_on;
  Busy busy(dispatcher, "a");
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(dispatcher.post("a", [&order, i] { order.push_back(i); }));
  }
  std::atomic<bool> returned = false;
  std::jthread caller([&] {
    EXPECT_TRUE(dispatcher.post("a", [&] {
      ran_on = std::this_thread::get_id();
      order.push_back(2);
    }));
    returned = true;
  });
  const std::thread::id caller_id = caller.get_id();
  wait_for_callers(dispatcher, 1);
  EXPECT_FALSE(returned);
  busy.let_go();
  caller.join();
  EXPECT_EQ(ran_on, caller_id);
  EXPECT_TRUE(dispatcher.run("a", [&] { order.push_back(3); }));
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(dispatcher.stats().rejected, 0U);
}

TEST_P(SerialBounds, CallersRunTheirWorkInTheOrderTheyCame) {
  SerialDispatcher dispatcher(options({.queue_capacity = 0, .on_full = OnFull::kCallerRuns}));
  std::vector<int> order;
  std::vector<std::jthread> callers;
  {
    Busy busy(dispatcher, "a");
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&, i] {
        switch (i % 3) {
          case 0:
            EXPECT_EQ(*dispatcher.run("a", [&] { return order.push_back(i), i; }), i);
            break;
          case 1:
            EXPECT_TRUE(dispatcher.post("a", [&] { order.push_back(i); }));
            break;
          default:
            EXPECT_TRUE(dispatcher.dispatch("a", [&] { order.push_back(i); })->is_done());
        }
      });
      wait_for_callers(dispatcher, static_cast<std::uint64_t>(i) + 1);
    }
  }
  callers.clear();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_P(SerialBounds, OneKeyNeverInterleavesWhenCallersRunTheirWork) {
  SerialDispatcher dispatcher(options({.queue_capacity = 1, .on_full = OnFull::kCallerRuns}));
  int inside = 0;
  int count = 0;
  const auto work = [&] {
    EXPECT_EQ(++inside, 1);
    ++count;
    --inside;
  };
  const auto coroutine = [&]() -> Task<void> {
    EXPECT_EQ(++inside, 1);
    co_await sleep_for(1us);
    ++count;
    --inside;
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        EXPECT_TRUE(dispatcher.post("a", work));
        EXPECT_TRUE(dispatcher.run("a", work));
        EXPECT_TRUE(dispatcher.dispatch("a", coroutine));
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(dispatcher.shutdown(1h));
  EXPECT_EQ(count, 2400);
}

TEST_P(SerialBounds, WhatACallersOwnWorkThrowsArrivesAndTheLaneGoesOn) {
  SerialDispatcher dispatcher(options({.queue_capacity = 0, .on_full = OnFull::kCallerRuns}));
  std::jthread caller;
  {
    Busy busy(dispatcher, "a");
    caller = std::jthread([&] {
      EXPECT_THROW((void)dispatcher.run("a", [] { throw 42; }), int);
      EXPECT_EQ(*dispatcher.run("a", [&] { return *dispatcher.run("a", [] { return 3; }); }), 3);
    });
    wait_for_callers(dispatcher, 1);
  }
  caller.join();
  EXPECT_EQ(*dispatcher.run("a", [] { return 1; }), 1);
}

TEST_P(SerialBounds, WhenTheTotalIsFullTheCallerRunsItsWork) {
  SerialDispatcher dispatcher(options({.total_capacity = 1, .on_full = OnFull::kCallerRuns}));
  std::vector<int> order;
  std::jthread caller;
  {
    Busy busy(dispatcher, "a");
    EXPECT_TRUE(dispatcher.post("a", [&] { order.push_back(1); }));
    caller = std::jthread([&] {
      const auto here = std::this_thread::get_id();
      EXPECT_TRUE(dispatcher.post("a", [&] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        order.push_back(2);
      }));
    });
    EXPECT_TRUE(eventually([&] { return dispatcher.stats().waiting == 2; }));
  }
  caller.join();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_P(SerialBounds, WorkThatPostsToItsOwnFullLaneCannotWaitForItselfAndIsTold) {
  SerialDispatcher dispatcher(options({.queue_capacity = 1, .on_full = OnFull::kCallerRuns}));
  Error error;
  EXPECT_TRUE(dispatcher.run("a", [&] {
    EXPECT_TRUE(dispatcher.post("a", [] {}));
    error = dispatcher.post("a", [] {}).error();
  }));
  EXPECT_EQ(error.code, ErrorCode::kRejected);
  EXPECT_EQ(error.rejection, RejectionReason::kQueueFull);
  EXPECT_EQ(error.message,
            "work for key \"a\" was not taken: the queue of its lane is full, with 1, and the work "
            "that posts it runs in the same lane, so it cannot wait for its turn; dispatch() it, "
            "which runs it at once inside that work, or raise queue_capacity");
}

TEST_P(SerialBounds, WorkThatPostsToItsOwnLaneIsToldIfTheTotalIsFull) {
  SerialDispatcher dispatcher(options({.total_capacity = 1, .on_full = OnFull::kCallerRuns}));
  Error error;
  EXPECT_TRUE(dispatcher.run("a", [&] {
    EXPECT_TRUE(dispatcher.post("a", [] {}));
    error = dispatcher.post("a", [] {}).error();
  }));
  EXPECT_EQ(error.code, ErrorCode::kRejected);
  EXPECT_EQ(error.rejection, RejectionReason::kGlobalQueueFull);
  EXPECT_EQ(error.message,
            "work for key \"a\" was not taken: the queues of all lanes are full, with 1 in total, "
            "and the work that posts it runs in the same lane, so it cannot wait for its turn; "
            "dispatch() it, which runs it at once inside that work, or raise total_capacity");
}

// So post() by its own work is the only call that is turned away.
TEST_P(SerialBounds, WorkOfAFullLaneThatDispatchesToItRunsThatAtOnce) {
  SerialDispatcher dispatcher(options({.queue_capacity = 0, .on_full = OnFull::kCallerRuns}));
  auto inside = [&] { return dispatcher.dispatch("a", [] { return 7; })->join().value(); };
  EXPECT_EQ(*dispatcher.run("a", inside), 7);
}

TEST_P(SerialBounds, ACallerInAnotherLaneRunsItsWorkThereAndACycleIsRefused) {
  expect_ends([this] {
    SerialDispatcher dispatcher(options({.queue_capacity = 0, .on_full = OnFull::kCallerRuns}));
    const std::string other = key_apart_from(dispatcher, "a");
    std::latch began(1);
    Busy busy(dispatcher, other);
    auto calling = dispatcher.dispatch("a", [&] {
      const auto here = std::this_thread::get_id();
      began.count_down();
      return *dispatcher.run(other, [&] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        EXPECT_EQ(*dispatcher.run(other, [] { return 1; }), 1);  // inside that lane now
        return dispatcher.run("a", [] {}).error().code;
      });
    });
    began.wait();
    wait_for_callers(dispatcher, 1);
    busy.let_go();
    EXPECT_EQ(calling->join().value(), ErrorCode::kWaitCycle);
  });
}

// ---- a time to begin

TEST_P(SerialBounds, WorkThatCannotBeginInTimeNeverRuns) {
  SerialDispatcher dispatcher(options());
  bool ran = false;
  {
    Busy busy(dispatcher, "a");
    const Result<void> late = dispatcher.try_run_for("a", 1ms, [&] { ran = true; });
    EXPECT_EQ(late.error().code, ErrorCode::kExpired);
    EXPECT_TRUE(late.error().retryable);
  }
  EXPECT_TRUE(dispatcher.shutdown(1h));
  EXPECT_FALSE(ran);
}

TEST_P(SerialBounds, WorkThatHasBegunIsWaitedForHoweverLongItTakes) {
  SerialDispatcher dispatcher(options());
  const std::string other = key_apart_from(dispatcher, "a");
  Busy busy(dispatcher, other);
  // On a busy machine it may not begin in time: then it is given longer.
  bool began = false;
  for (Duration time = 1ms; !began; time *= 2) {
    const Result<int> result = dispatcher.try_run_for("a", time, [&] {
      began = true;
      // Its own time to begin is over when that of a later call, as long, is.
      EXPECT_EQ(dispatcher.try_run_for(other, time, [] {}).error().code, ErrorCode::kExpired);
      return 7;
    });
    if (began) {
      ASSERT_TRUE(result.ok()) << result.error().message;
      EXPECT_EQ(*result, 7);
    } else {
      EXPECT_EQ(result.error().code, ErrorCode::kExpired);
    }
  }
}

TEST(SerialBoundsInSimulation, ACoroutineThatHasBegunIsWaitedForHoweverLongItTakes) {
  testing::SimScheduler sim;
  SerialDispatcher dispatcher({}, sim);
  EXPECT_EQ(*dispatcher.try_run_for("a", 1ms,
                                    []() -> Task<int> {
                                      co_await sleep_for(1h);
                                      co_return 7;
                                    }),
            7);
}

TEST_P(SerialBounds, ACallerInLineGivesUpWhenItsTimeToBeginIsOver) {
  SerialDispatcher dispatcher(options({.queue_capacity = 0, .on_full = OnFull::kCallerRuns}));
  bool ran = false;
  {
    Busy busy(dispatcher, "a");
    EXPECT_EQ(dispatcher.try_run_for("a", 1ms, [&] { ran = true; }).error().code,
              ErrorCode::kExpired);
  }
  EXPECT_TRUE(dispatcher.try_run_for("a", 1h, [] {}));
  EXPECT_FALSE(ran);
}

// Whatever the moment at which the time is over: once and told so, or never and told so.
TEST_P(SerialBounds, ATimedOutCallHasNotRunAndOneThatRanIsNotTimedOut) {
  const std::uint64_t seed = seed_from_environment();
  SCOPED_TRACE("KEYWAY_SEED=" + std::to_string(seed));
  for (const OnFull on_full : {OnFull::kFailFast, OnFull::kCallerRuns}) {
    SerialDispatcher dispatcher(options({.queue_capacity = 2, .on_full = on_full}));
    std::atomic<int> runs = 0;
    std::atomic<int> successes = 0;
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, random = std::mt19937_64(seed + i)]() mutable {
        for (int n = 0; n < 300; ++n) {
          int mine = 0;  // gone when the call returns: the sanitizers see it if the work is not
          const Duration time = std::chrono::nanoseconds(random() % 60'000);
          const Result<void> result = dispatcher.try_run_for("a", time, [&] {
            ++mine;
            ++runs;
          });
          EXPECT_EQ(mine, result ? 1 : 0);
          if (result) ++successes;
          EXPECT_TRUE(result || result.error().retryable);
        }
      });
    }
    threads.clear();
    EXPECT_TRUE(dispatcher.shutdown(1h));
    EXPECT_EQ(runs, successes);
  }
}

}  // namespace
}  // namespace keyway
