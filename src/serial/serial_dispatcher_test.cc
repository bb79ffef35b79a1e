#include "keyway/serial_dispatcher.h"

#include <atomic>
#include <barrier>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/testing/sim_scheduler.h"
#include "serial/serial_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(Routing, SerialRoutings,
                         ::testing::Values(Routing::kPerKey, Routing::kSticky), name_of_routing);

// ---- one at a time, in order, side by side

TEST_P(SerialRoutings, OneKeyNeverInterleaves) {
  SerialDispatcher dispatcher(options({.workers = 4}));
  int inside = 0;  // plain: two at once would be seen, by ThreadSanitizer at the latest
  int count = 0;
  const auto work = [&] {
    EXPECT_EQ(++inside, 1);
    ++count;
    --inside;
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 250; ++n) {
        EXPECT_TRUE(dispatcher.run("signer", work));
        EXPECT_TRUE(dispatcher.post("signer", work));
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(dispatcher.shutdown(1h));
  EXPECT_EQ(count, 2000);
}

TEST_P(SerialRoutings, WorkOfAKeyBeginsInTheOrderItCame) {
  SerialDispatcher dispatcher(options());
  std::vector<int> order;
  {
    Busy busy(dispatcher, "signer");
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(dispatcher.post("signer", [&order, i] { order.push_back(i); }));
    }
  }
  EXPECT_TRUE(dispatcher.shutdown(1h));
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_P(SerialRoutings, ManyKeysUseManyWorkers) {
  constexpr int kWorkers = 8;
  SerialDispatcher dispatcher(options({.workers = kWorkers}));
  std::set<std::string, std::less<>> lanes;
  std::barrier all_there(kWorkers);  // they meet, or the test hangs
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; handles.size() < kWorkers; ++i) {
    const std::string key = "signer-" + std::to_string(i);
    if (!lanes.emplace(dispatcher.lane_of(key)).second) continue;
    auto handle = dispatcher.dispatch(key, [&] { all_there.arrive_and_wait(); });
    ASSERT_TRUE(handle);
    handles.push_back(std::move(*handle));
  }
  for (TaskHandle<void>& handle : handles) EXPECT_TRUE(handle.join().ok());
}

TEST_P(SerialRoutings, NeverMoreRunThanThereAreWorkers) {
  SerialDispatcher dispatcher(options({.workers = 3}));
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(dispatcher.post("key-" + std::to_string(i), [&] {
      const int now = ++running;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::yield();
      --running;
    }));
  }
  EXPECT_TRUE(dispatcher.shutdown(1h));
  EXPECT_LE(most, 3);
}

TEST(SerialDispatcher, KeysAreNotInEachOthersWay) {
  SerialDispatcher dispatcher({.workers = 2});
  Busy busy(dispatcher, "slow");
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(dispatcher.run("key-" + std::to_string(i), [] {}));
  }
}

// ---- what run() gives

TEST_P(SerialRoutings, RunGivesWhatTheWorkReturns) {
  SerialDispatcher dispatcher(options());
  const Result<int> number = dispatcher.run("a", [] { return 42; });
  ASSERT_TRUE(number.ok()) << number.error().message;
  EXPECT_EQ(*number, 42);
  const Result<void> nothing = dispatcher.run("a", [] {});
  EXPECT_TRUE(nothing.ok());
  Result<std::unique_ptr<int>> moved = dispatcher.run("a", [] { return std::make_unique<int>(7); });
  EXPECT_EQ(**moved, 7);
  EXPECT_TRUE(*dispatcher.run("a", [](std::stop_token stop) { return stop.stop_possible(); }));
}

TEST_P(SerialRoutings, AResultOfAResultIsOneOfThem) {
  SerialDispatcher dispatcher(options());
  Result<int> good = dispatcher.run("a", []() -> Result<int> { return 1; });
  EXPECT_EQ(*good, 1);
  Result<int> bad =
      dispatcher.run("a", []() -> Result<int> { return Error{ErrorCode::kConflict, "stale"}; });
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kConflict);
  Result<void> none =
      dispatcher.run("a", []() -> Result<void> { return Error{ErrorCode::kIo, "disk"}; });
  EXPECT_EQ(none.error().code, ErrorCode::kIo);
}

TEST_P(SerialRoutings, WhatTheWorkThrowsIsThrownToTheCallerAndTheLaneGoesOn) {
  SerialDispatcher dispatcher(options());
  EXPECT_THROW((void)dispatcher.run("a", [] { throw 42; }), int);
  EXPECT_THROW((void)dispatcher.run("a", []() -> int { throw CancelledError(); }), CancelledError);
  EXPECT_TRUE(dispatcher.post("a", [] { throw "nobody sees it"; }));
  EXPECT_EQ(*dispatcher.run("a", [] { return 1; }), 1);
  EXPECT_EQ(dispatcher.stats().failed, 2U);
  EXPECT_EQ(dispatcher.stats().cancelled, 1U);
}

Task<int> add_later(int a, int b) {
  co_await sleep_for(1ms);
  co_return a + b;
}

TEST_P(SerialRoutings, ACoroutineKeepsItsLaneWhileItSleeps) {
  SerialDispatcher dispatcher(options());
  std::vector<int> order;
  auto first = dispatcher.dispatch("a", [&]() -> Task<int> {
    order.push_back(1);
    const int sum = co_await add_later(40, 2);
    order.push_back(2);
    co_return sum;
  });
  ASSERT_TRUE(first);
  EXPECT_TRUE(dispatcher.run("a", [&] { order.push_back(3); }));
  EXPECT_EQ(first->join().value(), 42);
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_EQ(*dispatcher.run("a", [] { return add_later(1, 2); }), 3);
}

TEST_P(SerialRoutings, AHandleCanBeAwaited) {
  SerialDispatcher dispatcher(options());
  const std::string other = key_apart_from(dispatcher, "a");
  const Result<int> sum = dispatcher.run("a", [&]() -> Task<int> {
    auto handle = dispatcher.dispatch(other, [] { return 20; });
    GroupResult<int> half = co_await *handle;
    co_return half.value() * 2;
  });
  EXPECT_EQ(*sum, 40);
}

TEST_P(SerialRoutings, ACallThatCannotBeMeantThrows) {
  SerialDispatcher dispatcher(options());
  const auto code_of = [](auto call) {
    try {
      (void)call();
    } catch (const Exception& exception) {
      return exception.code();
    }
    return ErrorCode::kIo;
  };
  void (*null)() = nullptr;
  EXPECT_EQ(code_of([&] { return dispatcher.run("", [] {}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { return dispatcher.post("", [] {}); }), ErrorCode::kInvalidArgument);
  try {
    static_cast<void>(dispatcher.run("", [] {}));
  } catch (const Exception& error) {
    EXPECT_EQ(std::string(error.what()).find("the key is empty"), 0U) << error.what();
  }
  EXPECT_EQ(code_of([&] { return dispatcher.post("a", null); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { return dispatcher.run("a", std::function<void()>()); }),
            ErrorCode::kInvalidArgument);
}

TEST(SerialDispatcher, WrongOptionsAreRefusedByName) {
  const auto refusal = [](SerialOptions options) -> std::string {
    try {
      SerialDispatcher dispatcher(options);
    } catch (const Exception& exception) {
      EXPECT_EQ(exception.code(), ErrorCode::kInvalidArgument);
      return exception.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.workers = 0}), "workers is 0; it must be at least 1");
  EXPECT_EQ(refusal({.queue_capacity = -1}), "queue_capacity is -1; it must be at least 0");
  EXPECT_EQ(refusal({.total_capacity = 0}), "total_capacity is 0; it must be at least 1");
  EXPECT_EQ(refusal({.total_capacity = 0, .on_full = OnFull::kCallerRuns}), "");
  EXPECT_EQ(refusal({.total_capacity = -5, .on_full = OnFull::kCallerRuns}),
            "total_capacity is -5; it must be at least 0");
  testing::SimScheduler sim;
  EXPECT_THROW(SerialDispatcher({.routing = Routing::kSticky}, sim), Exception);
}

// ---- sticky

TEST(SerialDispatcher, AStickyKeyStaysOnItsThreadAlsoAfterASuspension) {
  SerialDispatcher dispatcher({.workers = 3, .routing = Routing::kSticky});
  std::set<std::thread::id> all;
  for (int i = 0; i < 30; ++i) {
    const std::string key = "key-" + std::to_string(i);
    const auto here = [] { return std::this_thread::get_id(); };
    const std::thread::id first = *dispatcher.run(key, here);
    EXPECT_EQ(*dispatcher.run(key, here), first);
    EXPECT_EQ(*dispatcher.run(key,
                              []() -> Task<std::thread::id> {
                                co_await sleep_for(1ms);
                                co_return std::this_thread::get_id();
                              }),
              first);
    all.insert(first);
  }
  EXPECT_EQ(all.size(), 3U);
}

TEST(SerialDispatcher, AStickyWorkerIsTheLaneOfAllItsKeys) {
  SerialDispatcher dispatcher({.workers = 1, .queue_capacity = 1, .routing = Routing::kSticky});
  EXPECT_EQ(dispatcher.lane_of("a"), dispatcher.lane_of("b"));
  Busy busy(dispatcher, "a");
  auto waiting = dispatcher.dispatch("b", [] {});
  EXPECT_EQ(dispatcher.post("c", [] {}).error().code, ErrorCode::kRejected);
  busy.let_go();
  EXPECT_TRUE(waiting->join().ok());
  EXPECT_EQ(*dispatcher.run("a", [&] { return *dispatcher.run("b", [] { return 5; }); }), 5);
}

// ---- what it says of itself

TEST_P(SerialRoutings, StatsCountWhatHappened) {
  SerialDispatcher dispatcher(options({.queue_capacity = 2}));
  Busy busy(dispatcher, "a");
  auto waiting = dispatcher.dispatch("a", [] {});
  auto cancelled = dispatcher.dispatch("a", [] {});
  EXPECT_FALSE(dispatcher.post("a", [] {}));
  SerialStats stats = dispatcher.stats();
  EXPECT_EQ(stats.running, 1U);
  EXPECT_EQ(stats.waiting, 2U);
  EXPECT_EQ(stats.rejected, 1U);
  EXPECT_TRUE(cancelled->cancel());
  const Error expired = dispatcher.try_run_for("a", 0ns, [] {}).error();
  EXPECT_EQ(expired.code, ErrorCode::kExpired);
  EXPECT_TRUE(expired.message.starts_with("work for key \"a\" did not run")) << expired.message;
  busy.let_go();
  EXPECT_TRUE(waiting->join().ok());
  EXPECT_THROW((void)dispatcher.run("a", [] { throw 1; }), int);
  EXPECT_TRUE(dispatcher.run("a", [&] { (void)dispatcher.run("a", [] {}); }));
  EXPECT_TRUE(dispatcher.shutdown(1h));
  stats = dispatcher.stats();
  EXPECT_EQ(stats.submitted, 8U);
  EXPECT_EQ(stats.succeeded, 4U);  // what kept it busy, the one that waited, and one inside another
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.cancelled, 1U);
  EXPECT_EQ(stats.expired, 1U);
  EXPECT_EQ(stats.rejected, 1U);
  EXPECT_EQ(stats.running + stats.waiting, 0U);
  EXPECT_EQ(stats.waits.count, 4U);  // those that were queued and began
}

TEST(SerialDispatcher, StatsSayHowLongWorkWaited) {
  testing::SimScheduler sim;
  SerialDispatcher dispatcher({}, sim);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(dispatcher.post("a", []() -> Task<void> { co_await sleep_for(1s); }));
  }
  sim.run_until_idle();
  const TimeSummary waits = dispatcher.stats().waits;
  EXPECT_EQ(waits.count, 4U);
  EXPECT_EQ(waits.max, 3s);
  EXPECT_NEAR(std::chrono::duration<double>(waits.p50).count(), 1, 0.05);
}

TEST(SerialDispatcher, InAFloodOnlySomeWaitsAreMeasured) {
  testing::SimScheduler sim;
  SerialDispatcher dispatcher({.queue_capacity = kUnlimited}, sim);
  const auto dispatch_many = [&](Duration pause) {
    const std::uint64_t before = dispatcher.stats().waits.count;
    for (int i = 0; i < 50'000; ++i) {
      EXPECT_TRUE(dispatcher.post("a", [] {}));
      sim.run_until_idle();
      sim.advance(pause);
    }
    return dispatcher.stats().waits.count - before;
  };
  EXPECT_EQ(dispatch_many(100us), 50'000U);
  EXPECT_LT(dispatch_many(1us), 10'000U);
  EXPECT_GT(dispatch_many(1ms), 20'000U);  // after a while each is again
}

TEST_P(SerialRoutings, ExplainSaysWhoIsInTheWay) {
  SerialDispatcher dispatcher(options());
  EXPECT_EQ(dispatcher.explain("a").held_back_by, HeldBackBy::kNothing);
  std::latch began(1);
  std::latch go(1);
  auto first = dispatcher.dispatch("a", [&](std::stop_token) {
    began.count_down();
    go.wait();
  });
  began.wait();
  auto second = dispatcher.dispatch("a", [] {});
  const Explanation why = dispatcher.explain("a");
  EXPECT_EQ(why.held_back_by, HeldBackBy::kGroupLimit);
  EXPECT_EQ(why.running, 1U);
  EXPECT_EQ(why.waiting, 1U);
  EXPECT_EQ(why.holders.size(), 1U);
  EXPECT_NE(why.text().find("1 of 1 running"), std::string::npos) << why;
  EXPECT_EQ(why.text().find("set_limit"), std::string::npos) << why;
  EXPECT_EQ(why.text().find("group"), std::string::npos) << why;
  EXPECT_EQ(why.text().find("task"), std::string::npos) << why;
  const bool per_key = GetParam() == Routing::kPerKey;
  EXPECT_NE(why.text().find(per_key ? "; 1 waiting; goes on when the work for the key ends"
                                    : " (work for key \"a\"); 1 waiting; goes on when the work of "
                                      "the worker ends"),
            std::string::npos)
      << why;
  go.count_down();
  EXPECT_TRUE(second->join().ok());
}

}  // namespace
}  // namespace keyway
