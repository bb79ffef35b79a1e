// No wake-up of a pipeline's pump is lost. The commit interval is an hour in all of these tests: a pump that misses a
// record's end sleeps until then.
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

PipelineOptions without_commits(PipelineOptions options) {
  options.commit_interval = 1h;
  options.commit_every = std::numeric_limits<std::uint64_t>::max();
  return options;
}

// Runs the pump within post(): what a second worker does that is faster than the thread that woke the pump. Everything
// else runs in the simulation.
class FastPump final : public DrivenScheduler {
 public:
  explicit FastPump(SimScheduler& sim) : sim_(sim) {}

  void post(Runnable& runnable) override {
    if (pump_ == nullptr) pump_ = &runnable;  // the first item that a pipeline posts
    if (&runnable != pump_) return sim_.post(runnable);
    Turn turn{.clock = nullptr, .again = &runnable};
    while (turn.again != nullptr) std::exchange(turn, {}).again->run(turn);
  }
  TimePoint now() const override { return sim_.now(); }
  void add_timer(Timer& timer, TimePoint deadline) override { sim_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return sim_.cancel_timer(timer); }
  bool wait_for_turns_in_progress(const TimePoint*) override { return true; }
  bool run_one() override { return sim_.run_one(); }
  Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
              const TimePoint* deadline) override {
    return sim_.sleep(word, expected, deadline);
  }

 private:
  SimScheduler& sim_;
  Runnable* pump_ = nullptr;
};

// The pipeline asks for the end of a partition when it has dispatched all that it can, and before it sleeps.
class SourceThatTellsOfSleep final : public FakeSource {
 public:
  using FakeSource::FakeSource;
  std::optional<Offset> end_of(PartitionId) const override {
    if (before_sleep) before_sleep();
    return std::nullopt;
  }
  std::function<void()> before_sleep;
};

// Each way in which a record's task ends: a plain handler, a coroutine that waits, limits of groups, batches.
using Way = std::function<std::unique_ptr<Pipeline>(Source&, Scheduler&)>;
std::vector<std::pair<std::string, Way>> ways(int per_key) {
  const auto options = [=](PipelineOptions given) {
    given.max_in_flight_per_key = per_key;
    return without_commits(std::move(given));
  };
  const auto plain = [](const Record&) {};
  const auto waits = [](const Record&) -> Task<void> { co_await sleep_for(1ms); };
  const auto batch = [](const Batch&) -> Task<void> { co_await sleep_for(1ms); };
  const auto with = [=](PipelineOptions given, auto handler) -> Way {
    return [=](Source& source, Scheduler& scheduler) {
      return std::make_unique<Pipeline>(source, options(given), handler, scheduler);
    };
  };
  return {{"plain", with({}, plain)},
          {"coroutine", with({}, waits)},
          {"two of a key", with({.key_concurrency = 2}, waits)},
          {"groups", with({.by_group = true}, waits)},
          {"batches of one key", with({.batch = {.of = BatchOptions::kOneKey, .most = 3}}, batch)},
          {"batches of distinct keys", with({.batch = {.most = 3, .linger = 1ms}}, batch)}};
}

TEST(Pump, FindsRoomForTheKeyOfARecordWhoseEndWokeIt) {
  for (const int per_key : {0, 1}) {
    for (const auto& [name, make] : ways(per_key)) {
      SimScheduler sim;
      FastPump scheduler(sim);
      FakeLog log = numbered(60, 1);
      FakeSource source(log);
      const std::unique_ptr<Pipeline> pipeline = make(source, scheduler);
      const TimePoint began = sim.now();
      ASSERT_TRUE(pipeline->run_until().ok());
      EXPECT_EQ(pipeline->stats().done, 60U);
      EXPECT_LT(sim.now() - began, 1min) << name << ", " << per_key << " in line per key";
    }
  }
}

TEST(Pump, FindsRoomForAKeyOfSeveralPartitions) {
  for (const int per_key : {0, 1}) {
    for (const auto& [name, make] : ways(per_key)) {
      expect_ends([&] {
        SimScheduler sim;
        FakeLog log = numbered(60, 1, 3);
        FakeSource source(log);
        const std::unique_ptr<Pipeline> pipeline = make(source, sim);
        const TimePoint began = sim.now();
        ASSERT_TRUE(pipeline->run_until().ok());
        EXPECT_EQ(pipeline->stats().done, 60U);
        EXPECT_LT(sim.now() - began, 1min) << name << ", " << per_key << " in line per key";
      });
    }
  }
}

// No record of the key is in line that could end.
TEST(Pump, FindsTheRoomOfAKeyThatIsResumed) {
  struct Resumes final : Timer {
    void fire() override { pipeline->resume_key("key 0"); }
    Pipeline* pipeline = nullptr;
  };
  SimScheduler sim;
  FakeLog log = numbered(4, 1);
  FakeSource source(log);
  Pipeline pipeline(
      source, without_commits({.max_in_flight_per_key = 0}), [](const Record&) {}, sim);
  pipeline.pause_key("key 0");
  Resumes resumes;
  resumes.pipeline = &pipeline;
  const TimePoint began = sim.now();
  sim.add_timer(resumes, began + 1s);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().done, 4U);
  EXPECT_LT(sim.now() - began, 1min);
}

// The records of the first batch end while the second one awaits its commit.
TEST(Pump, FindsRoomThatARecordMadeBeforeACommit) {
  expect_ends([] {
    SimScheduler sim;
    FakeLog log = numbered(8, 1);
    FakeSource source(log);
    source.batch = 4;
    int commits = 0;
    source.on_commit = [&](std::span<const Progress>) -> Result<void> {
      if (++commits == 2) return Error{ErrorCode::kIo, "broker is away", /*retryable=*/true};
      return {};
    };
    Pipeline pipeline(
        source,
        {.delivery = Delivery::kAtMostOnce, .max_in_flight_per_key = 0, .commit_interval = 1s},
        [](const Record&) -> Task<void> { co_await sleep_for(1ms); }, sim);
    const TimePoint began = sim.now();
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_GT(commits, 2);
    EXPECT_EQ(pipeline.stats().done, 8U);
    EXPECT_LT(sim.now() - began, 1min);
  });
}

TEST(Pump, KnowsOfRecordsThatLeaveWhileItDecidesToSleep) {
  for (const auto& [name, make] : ways(1)) {
    SimScheduler sim;
    FakeLog log = numbered(10, 1);
    SourceThatTellsOfSleep source(log);
    // Another worker, which gets all its work done within that moment.
    source.before_sleep = [&] { std::thread([&] { sim.advance(10ms); }).join(); };
    const std::unique_ptr<Pipeline> pipeline = make(source, sim);
    const TimePoint began = sim.now();
    ASSERT_TRUE(pipeline->run_until().ok());
    EXPECT_EQ(pipeline->stats().done, 10U);
    EXPECT_LT(sim.now() - began, 1min) << name;
  }
}

TEST(Pump, HearsOfRecordsOfABatchThatAreDoneWhileAnotherIsTriedAgain) {
  SimScheduler sim;
  FakeLog log;
  for (const char* value : {"0", "1", "2", "3"}) log.partitions[0].push_back({"first", value});
  for (const char* value : {"4", "5", "6", "7"}) log.partitions[0].push_back({"second", value});
  FakeSource source(log);
  source.batch = 4;
  const TimePoint began = sim.now();
  Duration second_began{};
  // Four bytes may be in flight: the second batch is read when records of the first one are done.
  Pipeline pipeline(
      source, without_commits({.batch = {.of = BatchOptions::kOneKey}, .max_in_flight_bytes = 4}),
      [&](const Batch& batch) -> Task<std::vector<Outcome>> {
        co_await sleep_for(1ms);  // the pump sleeps by then
        if (batch[0].key == "second") second_began = sim.now() - began;
        std::vector<Outcome> outcomes(batch.size());
        if (batch[0].value == "0" && batch.attempt(0).number == 1) outcomes[0] = retry("", 30min);
        co_return outcomes;
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().done, 8U);
  EXPECT_LT(second_began, 1min);
}

TEST(Pump, HearsOfAStoreThatThrows) {
  struct Throws final : DeadLetters {
    Result<void> store(const DeadLetter&) override { throw std::runtime_error("disk is gone"); }
  };
  for (const BatchOptions::Kind kind : {BatchOptions::kDistinctKeys, BatchOptions::kOneKey}) {
    SimScheduler sim;
    FakeLog log = numbered(10, 2);
    FakeSource source(log);
    Pipeline pipeline(
        source,
        without_commits({.batch = {.of = kind}, .dead_letters = std::make_shared<Throws>()}),
        [](const Batch&) { return permanent_failure("bad"); }, sim);
    const TimePoint began = sim.now();
    const Result<PipelineEnd> end = pipeline.run_until();
    ASSERT_FALSE(end.ok());
    EXPECT_NE(end.error().message.find("disk is gone"), std::string::npos);
    EXPECT_LT(sim.now() - began, 1min);
  }
}

// Stops the pipeline after minutes, so that a hang is a failure and not an hour's wait.
class Alarm {
 public:
  explicit Alarm(std::stop_source& stop)
      : thread_([this, &stop] {
          std::unique_lock lock(mutex_);
          if (!over_.wait_for(lock, 3min, [&] { return is_over_; })) stop.request_stop();
        }) {}
  ~Alarm() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::jthread thread_;
};

TEST(Pump, NeverWaitsForACommitOnRealThreads) {
  constexpr int kRecords = 100'000;
  for (const int per_key : {0, 1}) {
    for (const int keys : {1, 3}) {
      FakeLog log = numbered(kRecords, keys);
      FakeSource source(log);
      std::stop_source stop;
      const Alarm alarm(stop);
      Pipeline pipeline(source,
                        without_commits({.concurrency = 4, .max_in_flight_per_key = per_key}),
                        [](const Record&) {});
      const Result<PipelineEnd> end = pipeline.run_until(stop.get_token());
      ASSERT_TRUE(end.ok());
      EXPECT_EQ(end->why, PipelineEnd::kSourceEnded)
          << "the pump sleeps: " << keys << " keys, " << per_key << " in line per key";
      EXPECT_EQ(pipeline.stats().done, static_cast<std::uint64_t>(kRecords));
    }
  }
}

}  // namespace
}  // namespace keyway
