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

}  // namespace
}  // namespace keyway
