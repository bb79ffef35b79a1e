// A submit with an id of its group costs the same however many tasks with this id run.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/scale.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// A group without a limit, in which tasks with one id run for an hour.
struct Running {
  TaskHandle<void> submit(Conflation conflation) {
    const auto work = []() -> Task<void> { co_await sleep_for(1h); };
    auto handle = executor.submit("g", {.id = "x", .conflation = conflation}, work);
    sim.run_ready();
    return handle;
  }

  SimScheduler sim;
  GroupExecutor executor{{.default_group = {.max_concurrency = kUnlimited}}, sim};
};

TEST(ConflationScale, ANewTaskDoesNotLookAtAllThatRun) {
  const auto seconds = [](int count) {
    Running running;
    const double began = cpu_seconds();
    for (int i = 0; i < count; ++i) (void)running.submit(Conflation::kKeepNewest);
    const double took = cpu_seconds() - began;
    EXPECT_EQ(running.executor.stats().running, static_cast<std::uint64_t>(count));
    return took;
  };
  expect_cost_stays(seconds, 100, 2'000);
}

// With kKeepNewest they were let finish.
TEST(ConflationScale, CancelRunningStopsAllThatRun) {
  Running running;
  std::vector<TaskHandle<void>> older;
  for (int i = 0; i < 3; ++i) older.push_back(running.submit(Conflation::kKeepNewest));
  EXPECT_EQ(running.executor.stats().running, 3U);
  TaskHandle<void> stops = running.submit(Conflation::kCancelRunning);
  for (TaskHandle<void>& task : older) EXPECT_EQ(task.join().status, TaskStatus::kCancelled);
  TaskHandle<void> newest = running.submit(Conflation::kKeepNewest);
  EXPECT_EQ(running.executor.stats().running, 2U);
  EXPECT_TRUE(stops.join().ok());
  EXPECT_TRUE(newest.join().ok());
}

}  // namespace
}  // namespace keyway
