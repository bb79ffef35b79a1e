// Submits that wait for room: which operations let them in, and in what order.
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/foreign_coroutine.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

Task<int> nap(Duration time) {
  co_await sleep_for(time);
  co_return 42;
}

// An executor in virtual time, and submitters outside of its tasks that wait for room.
class RoomLineTest : public ::testing::Test {
 protected:
  void make(GroupPolicy policy) {
    executor_ = std::make_unique<GroupExecutor>(std::move(policy), sim_);
  }
  TaskHandle<int> submit_nap(std::string_view group, Duration time = 1h) {
    return executor_->submit(group, [time] { return nap(time); });
  }
  // Writes the id of the task into entered_ when it has entered its queue.
  ForeignCoroutine submit_when_there_is_room(std::string group, TaskOptions options,
                                             Duration time = 1h) {
    const std::string id(options.id);
    const auto task = [time] { return nap(time); };
    auto submitted = co_await executor_->submit_async(group, options, task);
    if (!submitted.ok()) co_return;
    entered_.push_back(id);
    handles_.push_back(std::move(*submitted));
  }
  OwnedCoroutine submit_owned(std::string group) {
    const auto task = [] { return nap(1h); };
    const TaskOptions options;
    (void)co_await executor_->submit_async(group, options, task);
  }
  using Ids = std::vector<std::string>;

  SimScheduler sim_;
  Ids entered_;
  std::vector<TaskHandle<int>> handles_;
  std::unique_ptr<GroupExecutor> executor_;
};

TEST_F(RoomLineTest, AHigherGlobalLimitMakesRoom) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 0});
  auto busy = submit_nap("a");
  sim_.run_ready();
  submit_when_there_is_room("b", {.id = "x"});
  sim_.run_ready();
  EXPECT_EQ(executor_->waiting_for_room(), 1U);
  EXPECT_TRUE(executor_->set_global_limit(2).ok());
  sim_.run_ready();
  EXPECT_EQ(entered_, Ids{"x"});
  EXPECT_FALSE(busy.is_done());
}

TEST_F(RoomLineTest, ACoroutineThatIsDestroyedLeavesTheLine) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 0});
  auto busy = submit_nap("a");
  sim_.run_ready();
  {
    const OwnedCoroutine waits = submit_owned("b");
    EXPECT_EQ(executor_->waiting_for_room(), 1U);
  }
  EXPECT_EQ(executor_->waiting_for_room(), 0U);
  EXPECT_TRUE(executor_->set_global_limit(2).ok());
  sim_.run_ready();
  EXPECT_EQ(executor_->stats().running, 1U);
}

// The place in the global queue is free from then on, not only when the next task ends.
TEST_F(RoomLineTest, ATaskThatStartsMakesRoomInTheGlobalQueue) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 1});
  auto first = submit_nap("a", 1ms);
  sim_.run_ready();
  auto queued = submit_nap("b");
  submit_when_there_is_room("c", {.id = "x"});
  sim_.run_ready();
  EXPECT_EQ(executor_->waiting_for_room(), 1U);
  sim_.advance(1ms);
  EXPECT_EQ(executor_->group_stats("b").running, 1U);
  EXPECT_EQ(entered_, Ids{"x"});
}

TEST_F(RoomLineTest, ACancelledTaskMakesRoomInTheGlobalQueue) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 1});
  auto busy = submit_nap("a");
  sim_.run_ready();
  auto queued = submit_nap("b");
  submit_when_there_is_room("c", {.id = "x"});
  sim_.run_ready();
  EXPECT_TRUE(queued.cancel());
  sim_.run_ready();
  EXPECT_EQ(entered_, Ids{"x"});
  EXPECT_FALSE(busy.is_done());
}

TEST_F(RoomLineTest, ASubmitterThatGivesUpLetsACheaperOneIn) {
  make({.default_group = {.max_concurrency = 2, .queue_threshold = 0}});
  auto busy = submit_nap("g");
  auto short_one = submit_nap("g", 1ms);
  auto gives_up = executor_->submit("f", [&]() -> Task<void> {
    (void)co_await executor_->submit_async("g", {.id = "dear", .cost = 2}, answer);
  });
  sim_.run_ready();
  submit_when_there_is_room("g", {.id = "cheap"});
  sim_.advance(1ms);
  EXPECT_TRUE(short_one.is_done());
  EXPECT_EQ(executor_->waiting_for_room(), 2U);
  EXPECT_TRUE(gives_up.cancel());
  sim_.run_ready();
  EXPECT_EQ(entered_, Ids{"cheap"});
  EXPECT_FALSE(busy.is_done());
}

// A stop request does not end a thread's join(), so the task that runs stays.
TEST_F(RoomLineTest, AGroupThatIsShutDownHasRoom) {
  make({.default_group = {.max_concurrency = 1, .queue_threshold = 1}});
  GroupExecutor other({}, sim_);
  auto long_one = other.submit("l", [] { return nap(1h); });
  auto busy = executor_->submit("g", [&] { return long_one.join().value(); });
  auto queued = submit_nap("g");
  sim_.run_ready();
  submit_when_there_is_room("g", {.id = "x"});
  sim_.run_ready();
  EXPECT_EQ(executor_->waiting_for_room(), 1U);
  executor_->shutdown_group("g");
  sim_.run_ready();
  EXPECT_EQ(queued.join().status, TaskStatus::kRejected);
  EXPECT_EQ(entered_, Ids{"x"});
  EXPECT_FALSE(busy.is_done());
  sim_.run_until_idle();
}

TEST_F(RoomLineTest, ATaskThatWaitsForItsOwnGroupMakesRoom) {
  make({.default_group = {.max_concurrency = 1, .queue_threshold = 1}});
  auto outer = executor_->submit("g", [&]() -> Task<int> {
    auto inner = submit_nap("g");
    submit_when_there_is_room("g", {.id = "x"});
    EXPECT_EQ(executor_->waiting_for_room(), 1U);
    co_return (co_await inner).value();
  });
  sim_.run_ready();
  EXPECT_EQ(entered_, Ids{"x"});
  EXPECT_FALSE(outer.is_done());
}

TEST_F(RoomLineTest, ACostlySubmitIsNotOvertaken) {
  make({.groups = {{"g", {.max_concurrency = 2, .queue_threshold = 0}}}});
  auto busy = submit_nap("g", 1ms);
  sim_.run_ready();
  submit_when_there_is_room("g", {.id = "costly", .cost = 2}, 1ms);
  submit_when_there_is_room("g", {.id = "cheap"}, 1ms);
  sim_.run_until_idle();
  EXPECT_EQ(entered_, (Ids{"costly", "cheap"}));
}

// The task in front of the line needs two permits; the one behind it is waited for by a task that holds one of them.
TEST_F(RoomLineTest, ATaskThatWaitsGivesItsPermitToACostlySubmitInFrontOfItsTarget) {
  make({.groups = {{"g", {.max_concurrency = 2, .queue_threshold = 0}}}});
  TaskHandle<int> target;
  auto waits = executor_->submit("g", [&]() -> Task<int> {
    co_await sleep_for(1ms);
    co_return (co_await target).value();
  });
  auto busy = submit_nap("g", 20ms);
  sim_.run_ready();
  submit_when_there_is_room("g", {.id = "costly", .cost = 2}, 1ms);
  target = executor_->submit("h", [&]() -> Task<int> {
    auto cheap = co_await executor_->submit_async("g", {.id = "cheap"}, answer);
    co_return (co_await cheap.value()).value();
  });
  sim_.run_until_idle();
  EXPECT_TRUE(waits.is_done());
  EXPECT_TRUE(target.is_done());
  EXPECT_EQ(executor_->waiting_for_room(), 0U);
}

// ---- the order across groups

using RoomLineOrder = RoomLineTest;

// One task runs, and another one has the only place of the global queue.
TEST_F(RoomLineOrder, TheGlobalQueueIsServedInTheOrderOfTheCalls) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 1});
  auto busy = submit_nap("b", 1ms);
  auto queued = submit_nap("b", 1ms);
  submit_when_there_is_room("z", {.id = "1"}, 1ms);
  submit_when_there_is_room("m", {.id = "2"}, 1ms);
  submit_when_there_is_room("a", {.id = "3"}, 1ms);
  submit_when_there_is_room("z", {.id = "4"}, 1ms);
  sim_.run_ready();
  EXPECT_EQ(executor_->waiting_for_room(), 4U);
  sim_.run_until_idle();
  EXPECT_EQ(entered_, (Ids{"1", "2", "3", "4"}));
}

TEST_F(RoomLineOrder, SeveralPlacesAtOnceGoToTheFirstCalls) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 0});
  auto busy = submit_nap("b");
  sim_.run_ready();
  submit_when_there_is_room("z", {.id = "1"});
  submit_when_there_is_room("a", {.id = "2"});
  submit_when_there_is_room("z", {.id = "3"});
  submit_when_there_is_room("a", {.id = "4"});
  EXPECT_TRUE(executor_->set_global_limit(4).ok());
  sim_.run_ready();
  EXPECT_EQ(entered_, (Ids{"1", "2", "3", "4"}));
}

TEST_F(RoomLineOrder, AGroupWithoutRoomOfItsOwnIsPassedOver) {
  make({.groups = {{"narrow", {.max_concurrency = 1, .queue_threshold = 0}}},
        .global_max_in_flight = 2,
        .global_queue_threshold = 0});
  auto busy = submit_nap("narrow", 10ms);
  auto short_one = submit_nap("b", 1ms);
  sim_.run_ready();
  submit_when_there_is_room("narrow", {.id = "1"}, 1ms);
  submit_when_there_is_room("narrow", {.id = "2"}, 1ms);
  submit_when_there_is_room("a", {.id = "3"}, 1ms);
  submit_when_there_is_room("b", {.id = "4"}, 20ms);
  sim_.advance(1ms);
  EXPECT_EQ(entered_, Ids{"3"});
  sim_.advance(1ms);
  EXPECT_EQ(entered_, (Ids{"3", "4"}));
  sim_.run_until_idle();
  EXPECT_EQ(entered_, (Ids{"3", "4", "1", "2"}));
}

TEST_F(RoomLineOrder, ANewerTaskWithTheSameIdHasThePlaceOfTheOlderOne) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 0});
  auto busy = submit_nap("b", 1ms);
  sim_.run_ready();
  const TaskOptions options{.id = "x", .conflation = Conflation::kKeepNewest};
  submit_when_there_is_room("z", options, 1ms);
  submit_when_there_is_room("m", {.id = "y"}, 1ms);
  submit_when_there_is_room("z", options, 1ms);
  EXPECT_EQ(executor_->waiting_for_room(), 2U);
  sim_.run_until_idle();
  EXPECT_EQ(entered_, (Ids{"x", "x", "y"})) << "the older one entered when it was cancelled";
}

TEST_F(RoomLineOrder, OneThatGivesUpLeavesTheOthersInOrder) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 0});
  auto busy = submit_nap("b", 1ms);
  auto gives_up = std::make_unique<GroupExecutor>(GroupPolicy{}, sim_);
  auto first = gives_up->submit("f", [&]() -> Task<void> {
    (void)co_await executor_->submit_async("z", {.id = "0"}, answer);
  });
  sim_.run_ready();
  submit_when_there_is_room("m", {.id = "1"}, 1ms);
  submit_when_there_is_room("z", {.id = "2"}, 1ms);
  submit_when_there_is_room("a", {.id = "3"}, 1ms);
  EXPECT_TRUE(first.cancel());
  sim_.run_until_idle();
  EXPECT_EQ(entered_, (Ids{"1", "2", "3"}));
}

// Groups of which each has room, in a random order of calls, with random numbers of places.
TEST_F(RoomLineOrder, RandomCallsEnterInTheirOrder) {
  for (std::uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto below = [&](int bound) {
      return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
    };
    entered_.clear();
    handles_.clear();
    make({.default_group = {.max_concurrency = 1 + below(3)},
          .global_max_in_flight = 1 + below(3),
          .global_queue_threshold = below(3)});
    Ids called;
    for (int i = 0; i < 30; ++i) {
      called.push_back(std::to_string(i));
      submit_when_there_is_room(std::string(1, static_cast<char>('a' + below(5))),
                                {.id = called.back()}, std::chrono::milliseconds(1 + below(5)));
      if (below(3) == 0) sim_.advance(std::chrono::milliseconds(below(4)));
    }
    sim_.run_until_idle();
    EXPECT_EQ(entered_, called);
  }
}

}  // namespace
}  // namespace keyway
