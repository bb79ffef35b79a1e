// Tasks with the same id, of which not all are to run.
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/coroutines.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// A serial group in a simulation, whose tasks take 10 ms and write down when they begin.
class ConflationTest : public ::testing::Test {
 protected:
  TaskHandle<std::string> submit(const std::string& id, Conflation conflation,
                                 const std::string& text) {
    return executor_.submit(
        "g", {.id = id, .conflation = conflation},
        [this, text](std::stop_token stop) -> Task<std::string> { return run(text, stop); });
  }
  Task<std::string> run(std::string text, std::stop_token) {
    began_ += text;
    co_await sleep_for(10ms);  // throws CancelledError when a stop is requested
    co_return text;
  }

  SimScheduler sim_;
  std::string began_;
  GroupExecutor executor_{{}, sim_};
};

TEST_F(ConflationTest, KeepOldestTurnsANewTaskAwayWhileAnotherWaitsOrRuns) {
  auto first = submit("x", Conflation::kKeepOldest, "a");
  auto second = submit("x", Conflation::kKeepOldest, "b");
  auto other = submit("y", Conflation::kKeepOldest, "c");
  EXPECT_EQ(second.join().status, TaskStatus::kRejected);
  sim_.run_ready();
  EXPECT_EQ(submit("x", Conflation::kKeepOldest, "d").join().status, TaskStatus::kRejected);
  sim_.run_until_idle();
  auto later = submit("x", Conflation::kKeepOldest, "e");
  sim_.run_until_idle();
  EXPECT_EQ(began_, "ace");
  EXPECT_EQ(executor_.stats().rejected, 2U);
}

TEST(Conflation, IsOfOneGroupWhateverBytesStandInKeysAndIds) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  const auto submit = [&](std::string_view key, std::string_view id, int value) {
    return executor.submit(key, {.id = id, .conflation = Conflation::kShareResult},
                           [value] { return value; });
  };
  using std::string_view_literals::operator""sv;
  auto first = submit("a"sv, "b\0c"sv, 1);
  auto second = submit("a\0b"sv, "c"sv, 2);
  sim.run_until_idle();
  EXPECT_EQ(first.join().value(), 1);
  EXPECT_EQ(second.join().value(), 2);
}

TEST_F(ConflationTest, KeepNewestTakesThePlaceOfOneThatWaits) {
  auto busy = submit("busy", Conflation::kNone, "0");
  sim_.run_ready();
  auto first = submit("x", Conflation::kKeepNewest, "a");
  auto between = submit("y", Conflation::kNone, "b");
  auto second = submit("x", Conflation::kKeepNewest, "c");
  const GroupResult<std::string> superseded = first.join();
  EXPECT_EQ(superseded.status, TaskStatus::kCancelled);
  EXPECT_THROW(std::rethrow_exception(superseded.error), CancelledError);
  sim_.run_until_idle();
  EXPECT_EQ(began_, "0cb") << "in the place of the old one, so that it is never starved";
  EXPECT_EQ(executor_.stats().cancelled, 1U);
  EXPECT_EQ(executor_.stats().succeeded, 3U);
}

TEST_F(ConflationTest, KeepNewestLetsOneThatRunsFinish) {
  auto first = submit("x", Conflation::kKeepNewest, "a");
  sim_.run_ready();
  auto second = submit("x", Conflation::kKeepNewest, "b");
  auto third = submit("x", Conflation::kKeepNewest, "c");
  sim_.run_until_idle();
  EXPECT_EQ(began_, "ac");
  EXPECT_EQ(first.join().value(), "a");
  EXPECT_EQ(second.join().status, TaskStatus::kCancelled);
  EXPECT_EQ(third.join().value(), "c");
}

TEST_F(ConflationTest, ANewerTaskOfAnotherRankGoesToItsOwnPlace) {
  auto busy = submit("busy", Conflation::kNone, "0");
  sim_.run_ready();
  auto old = submit("x", Conflation::kKeepNewest, "a");
  auto other = submit("y", Conflation::kNone, "b");
  auto urgent =
      executor_.submit("g", {.id = "x", .priority = 1, .conflation = Conflation::kKeepNewest},
                       [this] { began_ += "u"; });
  EXPECT_EQ(old.join().status, TaskStatus::kCancelled);
  sim_.run_until_idle();
  EXPECT_EQ(began_, "0ub");
}

TEST_F(ConflationTest, CancelRunningAsksTheOneThatRunsToStop) {
  auto first = submit("x", Conflation::kCancelRunning, "a");
  sim_.run_ready();
  auto second = submit("x", Conflation::kCancelRunning, "b");
  sim_.run_ready();
  EXPECT_EQ(began_, "ab");
  EXPECT_EQ(first.join().status, TaskStatus::kCancelled);
  sim_.run_until_idle();
  EXPECT_EQ(second.join().value(), "b");
}

TEST_F(ConflationTest, ShareResultRunsOnceAndGivesEverybodyTheValue) {
  std::vector<TaskHandle<std::string>> handles;
  for (int i = 0; i < 5; ++i) handles.push_back(submit("x", Conflation::kShareResult, "a"));
  sim_.advance(5ms);
  handles.push_back(submit("x", Conflation::kShareResult, "b"));
  sim_.run_until_idle();
  EXPECT_EQ(began_, "a");
  for (auto& handle : handles) EXPECT_EQ(handle.join().value(), "a");
  EXPECT_EQ(executor_.stats().submitted, 6U);
  EXPECT_EQ(executor_.stats().succeeded, 6U);
  auto later = submit("x", Conflation::kShareResult, "c");
  sim_.run_until_idle();
  EXPECT_EQ(later.join().value(), "c") << "what has ended is not shared any more";
}

TEST_F(ConflationTest, ShareResultSharesAFailureToo) {
  const auto fail = []() -> int { throw std::runtime_error("no"); };
  const TaskOptions options{.id = "x", .conflation = Conflation::kShareResult};
  auto first = executor_.submit("g", options, fail);
  auto second = executor_.submit("g", options, fail);
  sim_.run_until_idle();
  EXPECT_THROW(second.join().value(), std::runtime_error);
  EXPECT_THROW(first.join().value(), std::runtime_error);
}

TEST_F(ConflationTest, AResultOfAnotherTypeIsNotShared) {
  const TaskOptions options{.id = "x", .conflation = Conflation::kShareResult};
  auto first = executor_.submit("g", options, [] { return 1; });
  EXPECT_THROW((void)executor_.submit("g", options, [] { return 2.5; }), Exception);
  sim_.run_until_idle();
  EXPECT_EQ(first.join().value(), 1);
}

TEST_F(ConflationTest, AValueThatCannotBeCopiedIsRefusedWhenItsTaskIsSubmitted) {
  const TaskOptions options{.id = "x", .conflation = Conflation::kShareResult};
  const auto refusal = [&](auto make) -> std::string {
    try {
      (void)executor_.submit("g", options, make);
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "none";
  };
  const std::string message =
      "task \"x\" of group \"g\" cannot share its result: its value cannot be copied; return a "
      "std::shared_ptr to it, or choose another Conflation than kShareResult";
  EXPECT_EQ(refusal([] { return std::make_unique<int>(7); }), message);
  EXPECT_EQ(refusal([] { return std::vector<std::unique_ptr<int>>(); }), message);
  EXPECT_EQ(refusal([]() -> Task<std::optional<std::map<int, std::unique_ptr<int>>>> {
              co_return std::nullopt;
            }),
            message);
  EXPECT_EQ(executor_.stats().submitted, 0U);
  EXPECT_EQ(refusal([] {}), "none");
}

// Its copy constructor exists, but does not compile.
struct Rows {
  std::vector<std::unique_ptr<int>> rows;
};

TEST_F(ConflationTest, AValueThatCannotBeCopiedNeedsNoCopyUnlessItIsShared) {
  auto rows = executor_.submit("g", [] {
    Rows made;
    made.rows.push_back(std::make_unique<int>(7));
    return made;
  });
  auto ranked = executor_.submit("g", {.id = "x", .priority = 1},
                                 [] { return std::vector<std::unique_ptr<int>>(3); });
  sim_.run_until_idle();
  EXPECT_EQ(*rows.join().value().rows.front(), 7);
  EXPECT_EQ(ranked.join().value().size(), 3U);
}

TEST_F(ConflationTest, OneThatSharesMayBeCancelledAlone) {
  auto first = submit("x", Conflation::kShareResult, "a");
  auto second = submit("x", Conflation::kShareResult, "b");
  EXPECT_TRUE(second.cancel());
  EXPECT_EQ(second.join().status, TaskStatus::kCancelled);
  sim_.run_until_idle();
  EXPECT_EQ(first.join().value(), "a");
}

TEST_F(ConflationTest, CancellingTheOneThatRunsEndsThoseWhoShareIt) {
  auto first = submit("x", Conflation::kShareResult, "a");
  auto second = submit("x", Conflation::kShareResult, "b");
  sim_.run_ready();
  EXPECT_TRUE(first.cancel());
  sim_.run_until_idle();
  EXPECT_EQ(second.join().status, TaskStatus::kCancelled);
}

TEST_F(ConflationTest, ATaskMayWaitForAResultItSharesInItsOwnGroup) {
  auto outer = executor_.submit("g", "outer", [&]() -> Task<std::string> {
    auto leader = submit("x", Conflation::kShareResult, "a");
    auto follower = submit("x", Conflation::kShareResult, "b");
    co_return (co_await follower).value();
  });
  sim_.run_until_idle();
  ASSERT_TRUE(outer.is_done());
  EXPECT_EQ(outer.join().value(), "a");
}

TEST_F(ConflationTest, ShutdownEndsAllOfThem) {
  auto busy = submit("busy", Conflation::kNone, "0");
  sim_.run_ready();
  auto first = submit("x", Conflation::kShareResult, "a");
  auto second = submit("x", Conflation::kShareResult, "b");
  executor_.shutdown();
  EXPECT_EQ(first.join().status, TaskStatus::kRejected);
  EXPECT_EQ(second.join().status, TaskStatus::kRejected);
}

TEST_F(ConflationTest, ATaskWithoutAnIdCannotBeConflated) {
  EXPECT_THROW((void)submit("", Conflation::kKeepNewest, "a"), Exception);
}

// A cost of 2 needs both permits, of which one is in use. The newer task needs one.
TEST(ConflationRanks, ACheaperTaskInThePlaceOfACostlyOneBeginsAtOnce) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"g", {.max_concurrency = 2}}}}, sim);
  const auto nap = []() -> Task<void> { co_await sleep_for(1h); };
  auto busy = executor.submit("g", nap);
  sim.run_ready();
  const auto submit = [&](int cost) {
    return executor.submit("g", {.id = "x", .cost = cost, .conflation = Conflation::kKeepNewest},
                           nap);
  };
  auto costly = submit(2);
  sim.run_ready();
  EXPECT_EQ(executor.group_stats("g").running, 1U);
  auto cheap = submit(1);
  sim.run_ready();
  EXPECT_EQ(costly.join().status, TaskStatus::kCancelled);
  EXPECT_EQ(executor.group_stats("g").running, 2U);
}

// A cost of 3 needs a permit that is in use, and fills the queue. The newer task needs none that is.
TEST(ConflationRanks, ACheaperTaskInThePlaceOfACostlyOneLetsATaskInThatWaitsForRoom) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"g", {.max_concurrency = 3, .queue_threshold = 1}}}}, sim);
  const auto nap = []() -> Task<void> { co_await sleep_for(1h); };
  auto busy = executor.submit("g", nap);
  sim.run_ready();
  const auto submit = [&](int cost) {
    return executor.submit("g", {.id = "x", .cost = cost, .conflation = Conflation::kKeepNewest},
                           nap);
  };
  auto costly = submit(3);
  auto waits = executor.submit(
      "h", [&]() -> Task<void> { (void)co_await executor.submit_async("g", "waits", nap); });
  sim.run_ready();
  EXPECT_EQ(executor.waiting_for_room(), 1U);
  auto cheap = submit(1);
  sim.run_ready();
  EXPECT_EQ(executor.waiting_for_room(), 0U);
  EXPECT_EQ(executor.group_stats("g").running, 3U);
}

// The place in the global queue passes to the newer task.
TEST(ConflationInTheGlobalQueue, ANewerTaskTakesThePlaceOnce) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 1,
                          .global_queue_threshold = 1,
                          .rejection = RejectionPolicy::kDiscard},
                         sim);
  const auto nap = []() -> Task<void> { co_await sleep_for(10ms); };
  auto busy = executor.submit("a", nap);
  sim.run_ready();
  const TaskOptions options{.id = "x", .conflation = Conflation::kKeepNewest};
  auto old = executor.submit("b", options, nap);
  auto newer = executor.submit("b", options, nap);
  EXPECT_EQ(old.join().status, TaskStatus::kCancelled);
  auto beyond = executor.submit("c", nap);
  EXPECT_EQ(beyond.join().status, TaskStatus::kRejected) << "the queue is full";
  sim.run_until_idle();
  EXPECT_EQ(newer.join().status, TaskStatus::kSuccess);
  // As many places as before.
  auto again = executor.submit("a", nap);
  auto queued = executor.submit("b", nap);
  EXPECT_EQ(executor.submit("c", nap).join().status, TaskStatus::kRejected);
  EXPECT_EQ(again.join().status, TaskStatus::kSuccess);
  EXPECT_EQ(queued.join().status, TaskStatus::kSuccess);
}

// One at a time, and one more may wait; who finds no room waits for some.
class ConflationInAFullQueue : public ::testing::Test {
 protected:
  static constexpr auto kOk = TaskStatus::kSuccess;

  // Submits from a coroutine of another group, which waits for room.
  void submit_when_there_is_room(const TaskOptions& options, const std::string& text,
                                 std::optional<TaskStatus>& ended) {
    const auto submit = [this, id = std::string(options.id), options, text,
                         &ended]() -> Task<void> {
      TaskOptions with_id = options;
      with_id.id = id;
      const auto work = [this, text](std::stop_token stop) { return run(text, stop); };
      auto handle = co_await executor_.submit_async("g", with_id, work);
      ended = (co_await *handle).status;
    };
    ASSERT_TRUE(executor_.post("submitter " + text, submit).ok());
    sim_.run_ready();
  }
  Task<void> run(std::string text, std::stop_token) {
    began_ += text;
    co_await sleep_for(10ms);
  }
  auto submit(const TaskOptions& options, const std::string& text) {
    return executor_.submit("g", options,
                            [this, text](std::stop_token stop) { return run(text, stop); });
  }

  SimScheduler sim_;
  std::string began_;
  GroupExecutor executor_{{.groups = {{"g", {.max_concurrency = 1, .queue_threshold = 1}}},
                           .rejection = RejectionPolicy::kDiscard},
                          sim_};
};

TEST_F(ConflationInAFullQueue, ANewTaskThatWaitsForRoomTakesThePlaceOfAnOlderOneThatDoes) {
  auto busy = submit({.id = "busy"}, "0");
  sim_.run_ready();
  auto waits = submit({.id = "waits"}, "1");
  std::optional<TaskStatus> old;
  std::optional<TaskStatus> other;
  std::optional<TaskStatus> newest;
  const TaskOptions options{.id = "x", .conflation = Conflation::kKeepNewest};
  submit_when_there_is_room(options, "a", old);
  submit_when_there_is_room({.id = "y"}, "b", other);
  submit_when_there_is_room(options, "c", newest);
  EXPECT_EQ(old, TaskStatus::kCancelled);
  sim_.run_until_idle();
  EXPECT_EQ(began_, "01cb");
  EXPECT_EQ(newest, kOk);
  EXPECT_EQ(other, kOk);
}

TEST_F(ConflationInAFullQueue, ATaskThatIsTurnedAwayEndsAndStopsNoOther) {
  const TaskOptions options{.id = "x", .conflation = Conflation::kCancelRunning};
  auto runs = submit(options, "a");
  sim_.run_ready();
  auto waits = submit({.id = "y"}, "b");
  EXPECT_EQ(submit(options, "c").join().status, TaskStatus::kRejected);
  sim_.run_until_idle();
  EXPECT_EQ(runs.join().status, kOk);
  EXPECT_EQ(began_, "ab");
}

TEST_F(ConflationInAFullQueue, ATaskOfAnotherRankTakesTheRoomOfTheOlderOne) {
  auto busy = submit({.id = "busy"}, "0");
  sim_.run_ready();
  auto old = submit({.id = "x", .conflation = Conflation::kKeepNewest}, "a");
  std::optional<TaskStatus> other;
  submit_when_there_is_room({.id = "y"}, "c", other);  // must not get the room in between
  auto urgent = submit({.id = "x", .priority = 1, .conflation = Conflation::kKeepNewest}, "b");
  EXPECT_EQ(old.join().status, TaskStatus::kCancelled);
  sim_.run_until_idle();
  EXPECT_EQ(urgent.join().status, kOk);
  EXPECT_EQ(other, kOk);
  EXPECT_EQ(began_, "0bc");
}

TEST_F(ConflationInAFullQueue, ATaskThatWaitsForRoomStopsARunningOneWhenItIsLetIn) {
  const TaskOptions options{.id = "x", .conflation = Conflation::kCancelRunning};
  auto runs = submit(options, "a");
  sim_.run_ready();
  auto waits = submit({.id = "y"}, "b");
  std::optional<TaskStatus> newest;
  submit_when_there_is_room(options, "c", newest);
  EXPECT_FALSE(runs.is_done());
  EXPECT_TRUE(waits.cancel());  // makes room
  sim_.run_ready();
  EXPECT_EQ(runs.join().status, TaskStatus::kCancelled);
  sim_.run_until_idle();
  EXPECT_EQ(newest, kOk);
}

TEST_F(ConflationTest, NothingIsSharedAfterShutdown) {
  auto leader = submit("x", Conflation::kShareResult, "a");
  sim_.run_ready();
  executor_.shutdown();
  EXPECT_THROW((void)submit("x", Conflation::kShareResult, "b"), Exception);
  sim_.run_until_idle();
}

TEST(ConflationThreads, ManyThreadsWithFewIdsEndEveryTaskOnce) {
  GroupExecutor executor({.default_group = {.max_concurrency = 2}});
  std::atomic<int> ended = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::vector<TaskHandle<int>> handles;
        for (int i = 0; i < 2'000; ++i) {
          handles.push_back(executor.submit(
              "g" + std::to_string(i % 3),
              {.id = std::to_string(i % 5), .conflation = static_cast<Conflation>(1 + (i + t) % 4)},
              [](std::stop_token) { return 1; }));
          if (i % 7 == 0) handles[static_cast<std::size_t>(i) / 2].cancel();
        }
        for (auto& handle : handles) {
          const GroupResult<int> result = handle.join();
          EXPECT_TRUE(!result.ok() || *result.stored.stored == 1);
          ++ended;
        }
      });
    }
  }
  EXPECT_EQ(ended, 8'000);
  const GroupStats stats = executor.stats();
  EXPECT_EQ(stats.submitted, 8'000U);
  EXPECT_EQ(stats.succeeded + stats.cancelled + stats.rejected, 8'000U);
}

// A stop callback of the running task submits a third one while the second is on its way in.
TEST_F(ConflationTest, ATaskThatIsSupersededBeforeItIsInDoesNotRun) {
  TaskHandle<std::string> third;
  auto first = executor_.submit("g", {.id = "x", .conflation = Conflation::kCancelRunning},
                                [&](std::stop_token stop) -> Task<std::string> {
                                  const std::stop_callback on_stop(stop, [&] {
                                    third = submit("x", Conflation::kKeepNewest, "c");
                                  });
                                  co_await sleep_for(10ms);
                                  co_return "a";
                                });
  sim_.run_ready();
  auto second = submit("x", Conflation::kCancelRunning, "b");
  EXPECT_EQ(second.join().status, TaskStatus::kCancelled);
  sim_.run_until_idle();
  EXPECT_EQ(began_, "c");
  EXPECT_EQ(third.join().value(), "c");
}

// "between" waits for room behind "cheap", and "holder" for "between". A costlier task takes the place of "cheap" and needs
// the permit of "holder".
TEST(ConflationInLine, ACostlierTaskThatTakesAPlaceInTheLineDoesNotCloseACycle) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"g", {.max_concurrency = 2, .queue_threshold = 0}}}}, sim);
  const auto nothing = [] {};
  const auto stand_in_line = [&](int cost) -> Task<void> {
    const TaskOptions options{.id = "c", .cost = cost, .conflation = Conflation::kKeepNewest};
    EXPECT_TRUE((co_await executor.submit_async("g", options, nothing)).ok());
  };
  auto between = executor.submit("between", [&]() -> Task<void> {
    co_await sleep_for(2ms);
    auto last = co_await executor.submit_async("g", "last", nothing);
    (void)co_await *last;
  });
  auto holder = executor.submit("g", "holder", [&] { return await_one(between); });
  auto runs = executor.submit("g", "runs", []() -> Task<void> { co_await sleep_for(10ms); });
  auto cheap = executor.submit("cheap", [&]() -> Task<void> {
    co_await sleep_for(1ms);
    co_await stand_in_line(1);
  });
  auto costly = executor.submit("costly", [&]() -> Task<void> {
    co_await sleep_for(3ms);
    co_await stand_in_line(2);
  });
  sim.run_until_idle();
  ASSERT_TRUE(holder.is_done());
  EXPECT_TRUE(holder.join().ok());
  EXPECT_TRUE(costly.is_done());
  EXPECT_TRUE(cheap.is_done());
}

// Each submit that shares a result has a reference to the leading task.
TEST_F(ConflationTest, ATaskCountsTwoThousandReferences) {
  auto handle = submit("x", Conflation::kNone, "a");
  detail::TaskCore& task = detail::HandleAccess::core(handle);
  for (int i = 0; i < 2'000; ++i) task.retain();
  for (int i = 0; i < 2'000; ++i) task.release();
  EXPECT_EQ(handle.join().value(), "a");
}

TEST_F(ConflationTest, MoreReferencesThanATaskCanCountEndTheProgram) {
  const auto retain = [&] {
    auto handle = submit("x", Conflation::kNone, "a");
    for (int i = 0; i < 2'048; ++i) detail::HandleAccess::core(handle).retain();
  };
  EXPECT_DEATH(retain(), "more references than it can count");
}

}  // namespace
}  // namespace keyway
