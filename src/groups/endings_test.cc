// A listener may wait for tasks that ended together with its own, also if it has the only thread.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/listeners.h"

namespace keyway {
namespace {

constexpr ThreadPoolOptions kOneThread{.threads = 1, .max_threads = 1};
constexpr auto kShare = Conflation::kShareResult;

TEST(Endings, AListenerOfALeaderMayWaitForAFollower) {
  testing::SimScheduler sim;
  const auto listener = std::make_shared<EndListener>();
  GroupExecutor executor({.listener = listener}, sim);
  std::optional<TaskHandle<int>> follower;
  bool joined = false;
  listener->ended = [&](const std::string&) {
    if (follower && !joined) {
      joined = true;  // of the first to end
      EXPECT_EQ(follower->join().value(), 1);
    }
  };
  const auto one = [] { return 1; };
  auto leader = executor.submit("g", {.id = "x", .conflation = kShare}, one);
  follower = executor.submit("g", {.id = "x", .conflation = kShare}, one);
  sim.run_until_idle();
  EXPECT_TRUE(leader.is_done());
  EXPECT_TRUE(joined);
}

TEST(Endings, OnOneThreadAListenerOfALeaderMayWaitForAFollower) {
  const auto listener = std::make_shared<EndListener>();
  GroupExecutor executor({.listener = listener}, kOneThread);
  std::latch both_in(1);
  std::optional<TaskHandle<int>> follower;
  std::atomic<bool> asked{false};
  std::atomic<bool> joined{false};
  listener->ended = [&](const std::string&) {
    // Two of them may end at once: one waits for the follower, the other may be the follower.
    if (!asked.exchange(true)) joined = follower->join().value() == 1;
  };
  const auto one = [&] {
    both_in.wait();
    return 1;
  };
  auto leader = executor.submit("g", {.id = "x", .conflation = kShare}, one);
  follower = executor.submit("g", {.id = "x", .conflation = kShare}, one);
  both_in.count_down();
  EXPECT_EQ(leader.join().value(), 1);
  executor.drain();
  EXPECT_TRUE(asked);
}

TEST(Endings, OnOneThreadAListenerMayWaitForAnotherTaskOfTheSameShutdown) {
  const auto listener = std::make_shared<EndListener>();
  GroupExecutor executor({.listener = listener}, kOneThread);
  std::latch submitted(1);
  std::vector<TaskHandle<void>> waiting;
  std::atomic<bool> joined{false};
  listener->ended = [&](const std::string& id) {
    if (id == "a") joined = waiting.back().join().status == TaskStatus::kRejected;
  };
  auto shutter = executor.submit("shutter", "s", [&] {
    submitted.wait();
    executor.shutdown_group("g");
  });
  for (const char* id : {"a", "b"}) waiting.push_back(executor.submit("g", id, [] {}));
  submitted.count_down();
  executor.drain();
  EXPECT_TRUE(joined);
}

// The process's background pool tells the end of a task that expires while all threads are busy. An executor that is
// destroyed, or used, when the program ends may need it after the statics of later functions are gone.
TEST(EndingsDeathTest, TheBackgroundPoolIsThereUntilTheProgramHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end_program = [] {
    std::atexit([] {
      std::latch open(1);
      GroupExecutor executor({}, kOneThread);
      auto busy = executor.submit("g", [&] { open.wait(); });
      auto late = executor.submit("g", {.start_within = std::chrono::milliseconds(1)}, [] {});
      if (late.join().status != TaskStatus::kExpired) std::_Exit(1);
      open.count_down();
    });
    detail::
        background_pool();  // made after the handler was registered, so a static would go before it
    std::exit(0);
  };
  EXPECT_EXIT(end_program(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace keyway
