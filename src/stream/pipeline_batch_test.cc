// Handlers that take several records at once.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/call_after.h"
#include "stream/pipeline_fixture.h"
#include "support/own_process.h"
#include "support/sim_decorator.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(PipelineBatches, HaveDistinctKeysAndAreFullWhileThereIsEnough) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SimScheduler sim(seed);
    FakeLog log = numbered(200, 10);
    FakeSource source(log);
    std::map<std::string, int> last;
    std::size_t batches = 0;
    int at_once = 0;
    const auto handler = [&](const Batch& batch) -> Task<void> {
      EXPECT_LE(++at_once, 2);
      ++batches;
      EXPECT_LE(batch.size(), 5U);
      std::set<std::string> keys;
      for (const Record& record : batch) {
        const std::string key(*record.key);
        EXPECT_TRUE(keys.insert(key).second) << "seed " << seed;
        EXPECT_TRUE(!last.contains(key) || last[key] < number(record)) << "seed " << seed;
        last[key] = number(record);
      }
      co_await sleep_for(1ms);
      --at_once;
    };
    Pipeline pipeline(source, {.concurrency = 2, .batch = {.most = 5}}, handler, sim);
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(pipeline.stats().done, 200U);
    EXPECT_EQ(log.committed[0].watermark, 200);
    EXPECT_LE(batches, 60U) << "seed " << seed;  // 40 if all were full
  }
}

// A user's scheduler with a lock that comes before those of batches. The check of the ranks ends the program if it is called
// under one of them.
class LocksItsClock final : public SimDecorator {
 public:
  using SimDecorator::SimDecorator;
  void post(Runnable& runnable) override { sim_.post(runnable); }
  TimePoint now() const override {
    const MutexLock lock(mutex_);
    return sim_.now();
  }
  void add_timer(Timer& timer, TimePoint deadline) override {
    const MutexLock lock(mutex_);
    sim_.add_timer(timer, deadline);
  }

 private:
  mutable Mutex<LockRank::kPipelineFailure> mutex_;
};

TEST(PipelineBatches, AskTheirSchedulerUnderNoLock) {
  expect_ends([] {
    SimScheduler sim;
    LocksItsClock scheduler(sim);
    FakeLog log = numbered(20, 5);
    FakeSource source(log);
    const auto handler = [](const Batch&) -> Task<void> { co_await sleep_for(1ms); };
    Pipeline pipeline(source, {.batch = {.most = 3, .linger = 2ms}}, handler, scheduler);
    EXPECT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(pipeline.stats().done, 20U);
  });
}

TEST(PipelineBatches, WaitForOthersNoLongerThanTheLinger) {
  SimScheduler sim;
  FakeLog log = numbered(3, 3);
  FakeSource source(log);
  std::vector<std::size_t> sizes;
  const TimePoint began = sim.now();
  Pipeline pipeline(
      source, {.batch = {.most = 100, .linger = 7ms}},
      [&](const Batch& batch) {
        sizes.push_back(batch.size());
        EXPECT_EQ(sim.now() - began, 7ms);
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(sizes, std::vector<std::size_t>{3});
}

TEST(PipelineBatches, GiveEachRecordItsOwnOutcome) {
  for (const BatchOptions::Kind kind : {BatchOptions::kDistinctKeys, BatchOptions::kOneKey}) {
    SimScheduler sim;
    FakeLog log = numbered(40, 4);
    FakeSource source(log);
    const auto letters = std::make_shared<KeptLetters>();
    std::map<int, int> tries;
    Pipeline pipeline(
        source, {.concurrency = 3, .batch = {.of = kind, .most = 8}, .dead_letters = letters},
        [&](const Batch& batch) {
          std::vector<Outcome> outcomes;
          for (std::size_t i = 0; i < batch.size(); ++i) {
            const int n = number(batch[i]);
            EXPECT_EQ(batch.attempt(i).number, ++tries[n]);
            outcomes.push_back(n % 10 == 3                   ? permanent_failure("bad")
                               : n % 10 == 7 && tries[n] < 3 ? retry("later", 1s)
                                                             : done());
          }
          return outcomes;
        },
        sim);
    ASSERT_TRUE(pipeline.run_until().ok());
    const PipelineStats stats = pipeline.stats();
    EXPECT_EQ(stats.done, 36U);
    EXPECT_EQ(stats.dead, 4U);
    EXPECT_EQ(stats.done_after_retry, 4U);
    EXPECT_EQ(stats.retries, 8U);
    EXPECT_EQ(letters->values.size(), 4U);
    EXPECT_EQ(log.committed[0].watermark, 40);
  }
}

TEST(PipelineBatches, OfOneKeyAreInOrderAndGrowWithWhatWaits) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SimScheduler sim(seed);
    FakeLog log = numbered(300, 3);
    FakeSource source(log);
    std::map<std::string, int> next;
    std::set<std::string> running;
    std::size_t batches = 0;
    const auto handler = [&](const Batch& batch) -> Task<Outcome> {
      ++batches;
      const std::string key(*batch[0].key);
      EXPECT_TRUE(running.insert(key).second) << "seed " << seed;
      for (const Record& record : batch) {
        EXPECT_EQ(*record.key, key) << "seed " << seed;
        EXPECT_EQ(number(record) / 3, next[key]++) << "seed " << seed;
      }
      co_await sleep_for(1ms);
      running.erase(key);
      co_return done();
    };
    Pipeline pipeline(source,
                      {.concurrency = 2, .batch = {.of = BatchOptions::kOneKey, .most = 50}},
                      handler, sim);
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(pipeline.stats().done, 300U);
    EXPECT_LE(batches, 30U) << "seed " << seed;
  }
}

TEST(PipelineBatches, OfOneKeyAreBoundedByWhatAKeyMayHave) {
  constexpr std::size_t kInFlight = 20 + 1;  // in line, and the one that has its turn
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SimScheduler sim(seed);
    FakeLog log = numbered(500, 1);
    FakeSource source(log);
    std::size_t most = 0;
    int handled = 0;
    Pipeline* self = nullptr;
    const auto handler = [&](const Batch& batch) -> Task<void> {
      co_await sleep_for(1ms);  // others come meanwhile, as far as they may
      most = std::max(most, batch.size());
      EXPECT_LE(self->stats().in_flight, kInFlight) << "seed " << seed;
      for (const Record& record : batch) EXPECT_EQ(number(record), handled++) << "seed " << seed;
    };
    Pipeline pipeline(
        source, {.batch = {.of = BatchOptions::kOneKey, .most = 1000}, .max_in_flight_per_key = 20},
        handler, sim);
    self = &pipeline;
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(handled, 500) << "seed " << seed;
    EXPECT_LE(most, kInFlight) << "seed " << seed;
    EXPECT_GT(most, kInFlight / 2) << "the bound was not reached, seed " << seed;
  }
}

// The batch has a record of each partition, and the first of the partitions is lost while it waits.
TEST(PipelineBatches, WaitForTheRateAlsoWhenAPartitionIsLost) {
  struct Loses final : Timer {
    explicit Loses(FakeSource& of) : source(of) {}
    void fire() override { source.take_away(0, PartitionEvent::kLost); }
    FakeSource& source;
  };
  SimScheduler sim;
  FakeLog log;
  for (PartitionId id = 0; id < 2; ++id) log.partitions[id] = {{std::nullopt, "x"}};
  FakeSource source(log);
  source.ends = false;  // it is polled until the end
  std::stop_source stop;
  Loses loses(source);
  sim.add_timer(loses, sim.now() + 500ms);
  const TimePoint began = sim.now();
  std::vector<std::size_t> sizes;
  Pipeline pipeline(
      source,
      {.concurrency = 1,
       .batch = {.of = BatchOptions::kOneKey},
       .rate = RateLimit{.per_second = 1, .burst = 1}},
      [&](const Batch& batch) {
        EXPECT_GE(sim.now() - began, sizes.size() * 1s);
        sizes.push_back(batch.size());
        if (sizes.size() == 1) return std::vector<Outcome>(batch.size(), retry("later", 0ns));
        stop.request_stop();
        return std::vector<Outcome>(batch.size());
      },
      sim);
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 1}));
}

// For how long the revoke of partition `revoked` holds back the next poll.
Duration time_of_revoke(PartitionId revoked, FakeLog log, PipelineOptions options,
                        std::function<Outcome()> outcome) {
  struct TimesRevoke final : FakeSource {
    TimesRevoke(FakeLog& of, const SimScheduler& scheduler) : FakeSource(of), sim(scheduler) {}
    Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                        std::size_t most) override {
      if (begun && !took) took = sim.now() - *begun;
      Result<Polled> polled = FakeSource::poll(records, events, most);
      if (!events.empty() && events.front().kind == PartitionEvent::kRevoked) begun = sim.now();
      return polled;
    }
    const SimScheduler& sim;
    std::optional<TimePoint> begun;
    std::optional<Duration> took;
  };
  SimScheduler sim;
  TimesRevoke source(log, sim);
  source.ends = false;
  std::stop_source stop;
  const CallAfter revokes(sim, 1s, [&] { source.take_away(revoked, PartitionEvent::kRevoked); });
  const CallAfter stops(sim, 1min, [&] { stop.request_stop(); });
  Pipeline pipeline(
      source, std::move(options),
      [&](const Batch& batch) {
        std::vector<Outcome> outcomes;
        for (std::size_t i = 0; i < batch.size(); ++i) {
          outcomes.push_back(batch.attempt(i).number == 1 ? outcome() : done());
        }
        return outcomes;
      },
      sim);
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(pipeline.stats().done, 1U) << "the record of the other partition";
  EXPECT_EQ(pipeline.stats().dropped, 1U);
  EXPECT_TRUE(source.took);
  return source.took.value_or(Duration::max());
}

// One record of each of two partitions.
FakeLog two_partitions() {
  FakeLog log;
  for (PartitionId id = 0; id < 2; ++id) log.partitions[id] = {{std::nullopt, "x"}};
  return log;
}

TEST(PipelineBatches, WaitForOthersNoLongerWhenTheirPartitionIsRevoked) {
  for (const PartitionId revoked : {0, 1}) {
    EXPECT_EQ(time_of_revoke(revoked, two_partitions(), {.batch = {.linger = 10s}}, done), 0s)
        << "partition " << revoked;
  }
}

TEST(PipelineBatches, RestNoLongerWhenAnyOfTheirPartitionsIsRevoked) {
  for (const PartitionId revoked : {0, 1}) {
    const PipelineOptions options{.concurrency = 1, .batch = {.of = BatchOptions::kOneKey}};
    const auto later = [] { return retry("later", 10s); };
    EXPECT_EQ(time_of_revoke(revoked, two_partitions(), options, later), 0s)
        << "partition " << revoked;
  }
}

TEST(PipelineBatches, WithoutEnoughOutcomesAreTriedAgain) {
  SimScheduler sim;
  FakeLog log = numbered(4, 4);
  FakeSource source(log);
  int calls = 0;
  Pipeline pipeline(
      source, {},
      [&](const Batch& batch) {
        return std::vector<Outcome>(++calls == 1 ? batch.size() - 1 : batch.size());
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(pipeline.stats().retries, 1U);
}

TEST(PipelineBatches, ThatThrowAreTriedAgainWhole) {
  SimScheduler sim;
  FakeLog log = numbered(4, 4);
  FakeSource source(log);
  int calls = 0;
  Pipeline pipeline(
      source, {},
      [&](const Batch&) {
        if (++calls == 1) throw std::runtime_error("away");
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().retries, 4U);
  EXPECT_EQ(pipeline.stats().done, 4U);
}

TEST(PipelineBatches, AreRefusedWithLimitsOfGroups) {
  SimScheduler sim;
  FakeLog log;
  FakeSource source(log);
  EXPECT_THROW(Pipeline(source, {.by_group = true}, [](const Batch&) {}, sim), Exception);
}

}  // namespace
}  // namespace keyway
