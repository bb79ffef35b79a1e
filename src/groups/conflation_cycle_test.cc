// Cycles of waits through a task that shares the result of another one. A fault here hangs, so these tests run in processes
// of their own.
#include <chrono>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// The wait of execute_all() is announced before its task is submitted, and shares the result of a task that waits for the caller.
TEST(ConflationCycle, ThroughExecuteAllIsRefused) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.default_group = {.max_concurrency = 4}}, sim);
    const TaskOptions options{.id = "x", .conflation = Conflation::kShareResult};
    TaskHandle<int> caller;
    auto leader = executor.submit("g", options, [&]() -> Task<int> {
      co_await sleep_for(1ms);
      co_return (co_await caller).value();
    });
    caller = executor.submit("caller", [&]() -> Task<int> {
      co_await sleep_for(2ms);  // the leader waits
      std::vector<GroupTask<int>> tasks;
      tasks.emplace_back("other", [] { return 1; });
      tasks.emplace_back("g", options, [] { return 2; });
      try {
        (void)executor.execute_all(std::move(tasks));
      } catch (const Exception& error) {
        EXPECT_EQ(error.code(), ErrorCode::kWaitCycle) << error.what();
        co_return 3;
      }
      co_return 4;
    });
    EXPECT_EQ(leader.join().value(), 3);
  });
}

TEST(ConflationCycle, AWaitOfTheLeaderForATaskThatAwaitsAFollowerIsRefused) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.default_group = {.max_concurrency = 4}}, sim);
    const TaskOptions options{.id = "x", .conflation = Conflation::kShareResult};
    TaskHandle<int> follower;
    TaskHandle<int> awaits;
    auto leader = executor.submit("g", options, [&]() -> Task<int> {
      co_await sleep_for(2ms);
      try {
        (void)co_await awaits;
      } catch (const Exception& error) {
        EXPECT_EQ(error.code(), ErrorCode::kWaitCycle) << error.what();
        co_return 3;
      }
      co_return 4;
    });
    follower = executor.submit("g", options, [] { return 2; });
    awaits = executor.submit("h", [&]() -> Task<int> { co_return (co_await follower).value(); });
    EXPECT_EQ(awaits.join().value(), 3);
  });
}

// A task of the group's permit holder waits for one behind the queued task, which a costlier one replaces.
TEST(ConflationCycle, ACostlierTaskThatTakesThePlaceOfAQueuedOneDoesNotCloseIt) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.groups = {{"g", {.max_concurrency = 2}}}}, sim);
    TaskHandle<void> last, between;
    auto holder = executor.submit("g", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      (void)co_await between;
    });
    sim.run_ready();
    executor.pause_group("g");
    const auto submit_x = [&](int cost) {
      return executor.submit("g", {.id = "x", .cost = cost, .conflation = Conflation::kKeepNewest},
                             [] {});
    };
    auto older = submit_x(1);
    last = executor.submit("g", {.priority = -1}, [] {});
    between = executor.submit("h", [&]() -> Task<void> { (void)co_await last; });
    sim.advance(5ms);  // the holder waits
    auto newer = submit_x(2);
    sim.run_ready();
    executor.resume_group("g");
    EXPECT_TRUE(holder.join().ok());
    EXPECT_TRUE(newer.join().ok());
  });
}

}  // namespace
}  // namespace keyway
