// run_until() in tasks, and pauses that meet the end of a run.
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <thread>
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
    auto caller = executor.submit("a", [&] { return pipeline.run_until().error(); });
    const Error error = caller.join().value();
    EXPECT_EQ(error.code, ErrorCode::kNoThread);
    EXPECT_TRUE(
        error.message.ends_with("would wait; wait on a thread outside of this scheduler, or raise "
                                "ThreadPoolOptions::max_threads"))
        << error.message;
    EXPECT_EQ(log.committed[0].watermark, 0);
  });
}

// No step of the pipeline may follow: there is no thread for it.
TEST(PipelineRun, ThatIsRefusedMayFindThatTheSourceThrowsFromClose) {
  struct ThrowsFromClose final : FakeSource {
    using FakeSource::FakeSource;
    void close() override { throw std::runtime_error("close failed"); }
  };
  expect_ends([] {
    ThreadPool pool({.threads = 1, .max_threads = 1});
    GroupExecutor executor({}, pool);
    FakeLog log = numbered(3, 1);
    auto caller = executor.submit("a", [&] {
      ThrowsFromClose source(log);
      Pipeline pipeline(source, {}, [](const Record&) {}, pool);
      return pipeline.run_until().error().code;
    });
    EXPECT_EQ(caller.join().value(), ErrorCode::kNoThread);
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
TEST(PipelineRunDeathTest, InASimulationThatHasNothingMoreToRun) {
  SimScheduler sim;
  FakeLog log = numbered(3, 1);
  FakeSource source(log);
  Pipeline pipeline(source, {.commit_interval = Duration::max()}, [](const Record&) {}, sim);
  pipeline.pause_key("key 0");
  EXPECT_DEATH((void)pipeline.run_until(), "a pipeline has not ended, but the simulation");
}

TEST(PipelineRunDeathTest, APipelineIsDestroyedWhileItRuns) {
  const auto destroy = [] {
    FakeLog log = numbered(1, 1);
    FakeSource source(log);
    std::latch began(1);
    auto pipeline =
        std::make_unique<Pipeline>(source, PipelineOptions{}, [&](const Record&) -> Task<void> {
          began.count_down();
          co_await sleep_for(1h);
        });
    std::jthread runs([&] { (void)pipeline->run_until(); });
    began.wait();
    pipeline.reset();
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(destroy(), "let it return first");
}

TEST(PipelineRun, ANullHandlerIsRefused) {
  FakeLog log = numbered(1, 1);
  FakeSource source(log);
  const std::function<Outcome(const Record&)> none;
  EXPECT_THROW(Pipeline(source, {}, none), Exception);
}

TEST(PipelineRun, AWakeUpAfterItsEndPostsNothing) {
  SimScheduler sim;
  FakeLog log = numbered(3, 1);
  FakeSource source(log);
  Pipeline pipeline(source, {}, [](const Record&) {}, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  sim.run_ready();
  pipeline.pause_partition(0);
  EXPECT_EQ(sim.ready_count(), 0U);
}

// A wake-up after the end of the run finds both threads of the pool in use.
TEST(PipelineRun, ATaskDestroysItThoughNoThreadOfThePoolIsFree) {
  expect_ends([] {
    std::latch is_busy(1);
    std::latch is_destroyed(1);
    ThreadPool pool({.threads = 2, .max_threads = 2});  // its last item still uses the latches
    GroupExecutor executor({}, pool);
    auto caller = executor.submit("a", [&] {
      FakeLog log = numbered(3, 1);
      FakeSource source(log);
      {
        Pipeline pipeline(source, {}, [](const Record&) {}, pool);
        EXPECT_TRUE(pipeline.run_until().ok());
        pool.execute([&] {
          is_busy.count_down();
          is_destroyed.wait();
        });
        is_busy.wait();
        pipeline.pause_partition(0);
      }
      is_destroyed.count_down();
    });
    EXPECT_TRUE(caller.join().ok());
  });
}

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

// A run that resumes there handles the record before those behind it.
TEST(PipelineRun, NoRecordOvertakesOneThatCannotBeClassified) {
  SimScheduler sim;
  FakeLog log = numbered(6, 1);
  FakeSource source(log);
  std::vector<int> handled;
  Pipeline pipeline(
      source, {.classify = [](Record& record) -> Result<bool> {
        if (number(record) == 2) return Error{ErrorCode::kInvalidArgument, "no key"};
        return true;
      }},
      [&](const Record& record) { handled.push_back(number(record)); }, sim);
  EXPECT_FALSE(pipeline.run_until().ok());
  for (const int record : handled) EXPECT_LT(record, 2);
}

TEST(PipelineRun, PartitionsThatAreRevokedTogetherAreCommittedWhenBothAreDone) {
  SimScheduler sim;
  FakeLog log;
  log.partitions[0] = {{"a", "0"}};
  log.partitions[1] = {{"b", "1"}};
  FakeSource source(log);
  source.ends = false;
  std::stop_source stop;
  int begun = 0;
  Pipeline pipeline(
      source, {},
      [&](const Record& record) -> Task<void> {
        if (++begun == 2) {
          source.take_away(0, PartitionEvent::kRevoked);
          source.take_away(1, PartitionEvent::kRevoked);
        }
        co_await sleep_for(record.partition == 1 ? 1s : 10ms);
        if (record.partition == 1) stop.request_stop();
      },
      sim);
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(log.committed[0].watermark, 1);
  EXPECT_EQ(log.committed[1].watermark, 1);
}

// The store may be destroyed when run_until() has returned.
TEST(PipelineRun, ReturnsWhenADeadLetterIsStored) {
  struct SlowLetters final : DeadLetters {
    Result<void> store(const DeadLetter&) override {
      begun.count_down();
      may_end.wait();
      over = true;
      return {};
    }
    std::latch begun{1};
    std::latch may_end{1};
    std::atomic<bool> over{false};
  };
  FakeLog log = numbered(1, 1);
  FakeSource source(log);
  const auto letters = std::make_shared<SlowLetters>();
  std::stop_source stop;
  Pipeline pipeline(source,
                    {.retry = {.attempts = 1}, .dead_letters = letters, .shutdown_wait = 1ms},
                    [](const Record&) { return permanent_failure("bad"); });
  std::jthread stops([&] {
    letters->begun.wait();
    stop.request_stop();
    // Longer than shutdown_wait, so that only the store keeps the run from its end.
    std::this_thread::sleep_for(20ms);
    letters->may_end.count_down();
  });
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_TRUE(letters->over);
}

}  // namespace
}  // namespace keyway
