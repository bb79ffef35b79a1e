#include "keyway/rest.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(RestFor, LetsOtherGroupsRunAndKeepsItsOwnInOrder) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 1}, sim);
  std::vector<std::string> order;
  auto first = executor.submit("a", "1", [&]() -> Task<void> {
    order.push_back("a1 begins");
    co_await rest_for(10ms);
    order.push_back("a1 ends");
  });
  auto second = executor.submit("a", "2", [&] { order.push_back("a2"); });
  auto other = executor.submit("b", "1", [&] { order.push_back("b1"); });
  EXPECT_TRUE(first.join().ok());
  EXPECT_TRUE(second.join().ok());
  EXPECT_TRUE(other.join().ok());
  EXPECT_EQ(order, (std::vector<std::string>{"a1 begins", "b1", "a1 ends", "a2"}));
}

TEST(RestFor, GoesOnOnlyWhenThereIsAPermitAgain) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimScheduler sim(seed);
    GroupExecutor executor({.global_max_in_flight = 2}, sim);
    int running = 0;
    const auto work = [&]() -> Task<void> {
      EXPECT_LE(++running, 2) << "seed " << seed;
      for (int i = 0; i < 3; ++i) {
        co_await sleep_for(1ms);
        --running;
        co_await rest_for(2ms);
        EXPECT_LE(++running, 2) << "seed " << seed;
      }
      --running;
    };
    std::vector<TaskHandle<void>> handles;
    for (int i = 0; i < 6; ++i) handles.push_back(executor.submit(std::to_string(i), "", work));
    for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
    EXPECT_EQ(running, 0);
  }
}

TEST(RestFor, EndsAtOnceIfTheTaskIsAskedToStop) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 1}, sim);
  auto handle = executor.submit("a", "1", [] { return rest_for(1h); });
  sim.run_ready();
  const TimePoint before = sim.now();
  EXPECT_TRUE(handle.cancel());
  EXPECT_EQ(handle.join().status, TaskStatus::kCancelled);
  EXPECT_EQ(sim.now(), before);
  EXPECT_EQ(executor.submit("b", "1", [] { return 1; }).join().value(), 1);
}

TEST(RestFor, IsASleepWithoutAGlobalLimitOrOutsideOfTasks) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  EXPECT_TRUE(executor.submit("a", "1", [] { return rest_for(1ms); }).join().ok());
  sync_wait(sim, rest_for(1ms));
}

}  // namespace
}  // namespace keyway
