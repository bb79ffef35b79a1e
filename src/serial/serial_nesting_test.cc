// Work that calls its own dispatcher: inside its lane, and across lanes that wait for each other.
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/serial_dispatcher.h"
#include "keyway/testing/sim_scheduler.h"
#include "serial/serial_fixture.h"
#include "support/at_end.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

using SerialNesting = SerialRoutings;
INSTANTIATE_TEST_SUITE_P(Routing, SerialNesting,
                         ::testing::Values(Routing::kPerKey, Routing::kSticky), name_of_routing);

// ---- inside its own lane

TEST_P(SerialNesting, ReentrantCallsComplete) {
  SerialDispatcher dispatcher(options({.workers = 1, .queue_capacity = 0}));
  std::function<int(int)> deeper = [&](int depth) -> int {
    if (depth == 0) return 0;
    return 1 + *dispatcher.run("signer", [&] { return deeper(depth - 1); });
  };
  EXPECT_EQ(*dispatcher.run("signer", [&] { return deeper(500); }), 500);
}

TEST_P(SerialNesting, ACallForItsOwnLaneRunsAtOnceOnItsThreadBeforeAllWhoWait) {
  SerialDispatcher dispatcher(options());
  std::vector<std::string> order;
  std::latch began(1);
  std::latch go(1);
  auto outer = dispatcher.dispatch("a", [&] {
    began.count_down();
    go.wait();
    order.push_back("outer begins");
    const auto outer_thread = std::this_thread::get_id();
    EXPECT_EQ(*dispatcher.run("a", [] { return std::this_thread::get_id(); }), outer_thread);
    auto inner = dispatcher.dispatch("a", [&] {
      order.push_back("inner");
      return 7;
    });
    EXPECT_TRUE(inner->is_done());
    EXPECT_EQ(inner->join().value(), 7);
    EXPECT_THROW((void)dispatcher.run("a", [] { throw 1; }), int);
    order.push_back("outer ends");
  });
  began.wait();
  auto next = dispatcher.dispatch("a", [&] { order.push_back("next"); });
  go.count_down();
  EXPECT_TRUE(outer->join().ok());
  EXPECT_TRUE(next->join().ok());
  EXPECT_EQ(order, (std::vector<std::string>{"outer begins", "inner", "outer ends", "next"}));
}

TEST_P(SerialNesting, APostToItsOwnLaneIsQueued) {
  SerialDispatcher dispatcher(options());
  std::vector<int> order;
  EXPECT_TRUE(dispatcher.run("a", [&] {
    EXPECT_TRUE(dispatcher.post("a", [&] { order.push_back(2); }));
    order.push_back(1);
  }));
  EXPECT_TRUE(dispatcher.shutdown(1h));
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_P(SerialNesting, ACoroutineInsideItsLaneRunsToItsEnd) {
  SerialDispatcher dispatcher(options({.workers = 1}));
  std::vector<int> order;
  const auto naps = [&]() -> Task<int> {
    order.push_back(1);
    co_await sleep_for(1ms);
    EXPECT_TRUE(dispatcher.run("a", [&] { order.push_back(2); }));  // still inside, on any thread
    co_return 3;
  };
  std::latch began(1);
  auto outer = dispatcher.dispatch("a", [&] {
    began.count_down();
    auto inner = dispatcher.dispatch("a", naps);
    EXPECT_TRUE(inner->is_done());  // so that it does not go on without its lane
    order.push_back(inner->join().value());
  });
  began.wait();
  EXPECT_TRUE(dispatcher.run("a", [&] { order.push_back(4); }));
  EXPECT_TRUE(outer->join().ok());
  EXPECT_EQ(order, (std::vector{1, 2, 3, 4}));
}

TEST_P(SerialNesting, ACoroutineIsInsideItsLaneAfterASuspensionToo) {
  SerialDispatcher dispatcher(options({.queue_capacity = 0}));
  EXPECT_EQ(*dispatcher.run("a",
                            [&]() -> Task<int> {
                              co_await sleep_for(1ms);
                              co_return *dispatcher.run("a", [] { return 5; });
                            }),
            5);
}

TEST(SerialDispatcher, WorkInsideALaneHearsOfAShutdown) {
  SerialDispatcher dispatcher({});
  std::latch began(1);
  std::jthread caller([&] {
    EXPECT_TRUE(dispatcher.run("a", [&] {
      EXPECT_TRUE(dispatcher.run("a", [&](std::stop_token stop) {
        began.count_down();
        while (!stop.stop_requested()) std::this_thread::yield();
      }));
    }));
  });
  began.wait();
  EXPECT_FALSE(dispatcher.shutdown(0s));
}

// ---- across lanes

TEST_P(SerialNesting, ACallForAnotherLaneIsQueuedThere) {
  SerialDispatcher dispatcher(options());
  const std::string other = key_apart_from(dispatcher, "a");
  std::vector<int> order;
  Busy busy(dispatcher, other);
  auto waiting = dispatcher.dispatch(other, [&] { order.push_back(1); });
  std::latch began(1);
  auto calling = dispatcher.dispatch("a", [&] {
    began.count_down();
    EXPECT_TRUE(dispatcher.run(other, [&] { order.push_back(2); }));
  });
  began.wait();
  busy.let_go();
  EXPECT_TRUE(calling->join().ok());
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(SerialDispatcher, ACallThatWaitsTakesNoWorkerAway) {
  SerialDispatcher dispatcher({.workers = 1});
  EXPECT_EQ(*dispatcher.run("a", [&] { return *dispatcher.run("b", [] { return 9; }); }), 9);
}

// The call that closes the cycle is the inner one, always: the outer one's work has begun, and is waited for.
TEST_P(SerialNesting, ACallThatClosesACycleIsRefusedAndNamesTheLanes) {
  expect_ends(
      [this] {
        SerialDispatcher dispatcher(options());
        const std::string other = key_apart_from(dispatcher, "a");
        for (int i = 0; i < 500; ++i) {
          bool ran = false;
          std::optional<Error> refused;
          const Result<void> outer = dispatcher.run("a", [&] {
            return dispatcher.run(other, [&] {
              const Result<void> inner = dispatcher.run("a", [&] { ran = true; });
              if (!inner) refused = inner.error();
            });
          });
          ASSERT_TRUE(outer.ok()) << outer.error().message;
          ASSERT_TRUE(refused.has_value());
          EXPECT_EQ(refused->code, ErrorCode::kWaitCycle);
          EXPECT_FALSE(refused->retryable);
          EXPECT_NE(refused->message.find("work for key \"a\""), std::string::npos)
              << refused->message;
          EXPECT_EQ(refused->message.find("group"), std::string::npos) << refused->message;
          for (const std::string_view key : {std::string_view("a"), std::string_view(other)}) {
            const std::string quoted = '"' + std::string(dispatcher.lane_of(key)) + '"';
            EXPECT_NE(refused->message.find(quoted), std::string::npos) << refused->message;
          }
          EXPECT_FALSE(ran);
        }
      },
      60);
}

TEST_P(SerialNesting, TwoLanesThatCallEachOtherHaveOneOfTheCallsRefused) {
  expect_ends(
      [this] {
        SerialDispatcher dispatcher(options());
        const std::string other = key_apart_from(dispatcher, "a");
        for (int i = 0; i < 200; ++i) {
          std::latch both(2);
          const auto call = [&](const std::string& key) {
            return [&, key] {
              both.arrive_and_wait();
              return dispatcher.run(key, [] { return 1; });
            };
          };
          auto one = dispatcher.dispatch("a", call(other));
          auto two = dispatcher.dispatch(other, call("a"));
          const Result<int> first = one->join().value();
          const Result<int> second = two->join().value();
          ASSERT_EQ(first.ok() + second.ok(), 1);
          EXPECT_EQ((first ? second : first).error().code, ErrorCode::kWaitCycle);
        }
      },
      60);
}

TEST_P(SerialNesting, ACycleThroughACoroutineInsideALaneIsFound) {
  expect_ends([this] {
    SerialDispatcher dispatcher(options());
    const std::string other = key_apart_from(dispatcher, "a");
    std::latch called(1);
    std::latch answered(1);  // the call back is accepted or refused before the dispatcher closes
    std::atomic<int> refused = 0;
    auto outer = dispatcher.dispatch("a", [&] {
      (void)dispatcher.run("a", [&]() -> Task<void> {
        auto there = dispatcher.dispatch(other, [&] {
          called.count_down();
          const Result<void> back = dispatcher.run("a", [] {});
          if (!back) ++refused;
          answered.count_down();
        });
        called.wait();
        try {
          (void)co_await *there;
        } catch (const Exception& error) {
          EXPECT_EQ(error.code(), ErrorCode::kWaitCycle);
          ++refused;
        }
      });
    });
    EXPECT_TRUE(outer->join().ok());
    answered.wait();
    EXPECT_TRUE(dispatcher.shutdown(1h));
    EXPECT_EQ(refused, 1);
  });
}

TEST(SerialDispatcher, ACycleThroughTwoDispatchersIsFound) {
  expect_ends([] {
    SerialDispatcher one({});
    SerialDispatcher other({});
    const Result<bool> refused = one.run("a", [&] {
      return *other.run("a",
                        [&] { return one.run("a", [] {}).error().code == ErrorCode::kWaitCycle; });
    });
    EXPECT_TRUE(*refused);
  });
}

// The outer work lends its worker while it waits to be taken, and has it again before the refused work is destroyed: no
// other work runs meanwhile.
TEST(SerialNestingOnOneWorker, WorkThatIsTurnedAwayIsDestroyedByItsCallerWithItsPermit) {
  testing::SimScheduler sim;
  SerialDispatcher dispatcher({.workers = 1, .queue_capacity = 0}, sim);
  bool full_ran = false;
  bool destroyed = false;
  const std::function<void()> watch = [&] {
    sim.run_ready();  // all that can run
    EXPECT_FALSE(full_ran);
    destroyed = true;
  };
  auto outer = dispatcher.dispatch("a", [&]() -> Task<void> {
    EXPECT_TRUE(dispatcher.post("full", [&] { full_ran = true; }));
    co_await sleep_for(1ms);  // "full" waits for the worker now
    const Result<void> refused = dispatcher.run("full", [end = AtEnd(watch)] {});
    EXPECT_FALSE(refused.ok());
    EXPECT_TRUE(destroyed);
  });
  EXPECT_TRUE(outer->join().ok());
  sim.run_until_idle();
  EXPECT_TRUE(full_ran);
}

}  // namespace
}  // namespace keyway
