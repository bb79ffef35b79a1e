// run_until() in tasks, and pauses that meet the end of a run.
#include <functional>
#include <stop_token>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "stream/pipeline_fixture.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(PipelineRun, OnTheLastThreadOfItsPoolIsRefused) {
  expect_ends([] {
    ThreadPool pool({.threads = 1, .max_threads = 1});
    GroupExecutor executor({}, pool);
    FakeLog log = numbered(3, 1);
    FakeSource source(log);
    Pipeline pipeline(source, {}, [](const Record&) {}, pool);
    auto caller = executor.submit("a", [&] { return pipeline.run_until().error().code; });
    EXPECT_EQ(caller.join().value(), ErrorCode::kNoThread);
    EXPECT_EQ(log.committed[0].watermark, 0);
  });
}

TEST(PipelineRun, GivesTheGlobalPermitOfItsTaskBack) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 1}, sim);
  FakeLog log = numbered(3, 1);
  FakeSource source(log);
  // A handler needs the only global permit of the executor whose task runs the pipeline.
  Pipeline pipeline(
      source, {}, [&](const Record&) { (void)executor.submit("b", [] {}).join(); }, sim);
  auto caller = executor.submit("a", [&] { return pipeline.run_until().ok(); });
  EXPECT_TRUE(caller.join().value());
  EXPECT_EQ(pipeline.stats().done, 3U);
}

TEST(PipelineRun, AHandlerCannotWaitForTheTaskThatRunsItsPipeline) {
  for (const bool by_group : {false, true}) {
    expect_ends([&] {
      SimScheduler sim;
      GroupExecutor executor({}, sim);
      FakeLog log = numbered(1, 1);
      FakeSource source(log);
      TaskHandle<void> caller;
      ErrorCode refused{};
      Pipeline pipeline(
          source, {.by_group = by_group},
          [&](const Record&) {
            try {
              (void)caller.join();
            } catch (const Exception& error) {
              refused = error.code();
            }
          },
          sim);
      caller = executor.submit("a", [&] { EXPECT_TRUE(pipeline.run_until().ok()); });
      EXPECT_TRUE(caller.join().ok());
      EXPECT_EQ(refused, ErrorCode::kWaitCycle);
    });
  }
}

// Four records are queued behind the first one. Its handler pauses the pipeline after the run has begun to end.
TEST(PipelineRun, APauseDuringItsEndDoesNotDelayIt) {
  SimScheduler sim;
  FakeLog log = numbered(5, 5);
  FakeSource source(log);
  std::stop_source stop;
  std::function<void()> pause;
  Pipeline pipeline(
      source, {.concurrency = 1, .shutdown_wait = 10min},
      [&](const Record&) -> Task<void> {
        stop.request_stop();
        co_await sleep_for(1ms);
        pause();
      },
      sim);
  pause = [&] { pipeline.pause(); };
  const TimePoint began = sim.now();
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_LT(sim.now() - began, 1min);
}

// A source may wake its pipeline before open() has returned.
TEST(PipelineRun, PollsNothingBeforeTheSourceIsOpen) {
  struct EagerSource final : FakeSource {
    EagerSource(FakeLog& log, SimScheduler& scheduler) : FakeSource(log), sim(scheduler) {}
    Result<void> open(std::function<void()> wake) override {
      Result<void> opened = FakeSource::open(wake);
      wake();
      sim.run_ready();  // as another thread may do
      is_open = true;
      return opened;
    }
    Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                        std::size_t most) override {
      EXPECT_TRUE(is_open);
      return FakeSource::poll(records, events, most);
    }
    SimScheduler& sim;
    bool is_open = false;
  };
  SimScheduler sim;
  FakeLog log = numbered(5, 5);
  EagerSource source(log, sim);
  Pipeline pipeline(source, {}, [](const Record&) {}, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().done, 5U);
}

}  // namespace
}  // namespace keyway
