// What ordered parallel processing with at-least-once delivery must get right, one test for each point: errors, keys,
// back pressure, stopping, duplicates; and the places where others lose records or stand still.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/ledger.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// ---- the registry: what may be committed

TEST(Commit, OfNPlusOneIsForbiddenWhileNIsNotDone) {
  SimScheduler sim;
  FakeLog log = numbered(3, 3);
  FakeSource source(log);
  std::vector<Progress> commits;
  source.on_commit = [&](std::span<const Progress> progress) -> Result<void> {
    commits.push_back(progress[0]);
    return {};
  };
  const auto handler = [](const Record& record) -> Task<void> {
    co_await sleep_for(record.offset == 1 ? 1min : 1s);
  };
  Pipeline pipeline(source, {}, handler, sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  ASSERT_EQ(commits.size(), 2U);
  EXPECT_EQ(commits[0], (Progress{.watermark = 1, .done_above = {{2, 3}}}));
  EXPECT_EQ(commits[1], (Progress{.watermark = 3}));
}

TEST(Commit, TakenWhileRecordsAreSettledClaimsNothingThatIsNotDone) {
  // Base and map are from one look: nothing that settles in between can mark another one done.
  constexpr int kRecords = 50'000;
  Ledger ledger({.watermark = 0});
  std::vector<Ledger::Entry*> entries;
  std::vector<std::atomic<bool>> settled(kRecords);
  for (int i = 0; i < kRecords; ++i) entries.push_back(&ledger.add(i, i + 1));
  std::atomic<bool> begun = false;
  std::jthread worker([&] {
    begun.wait(false);
    for (int i = 0; i < kRecords; ++i) {
      const int at = i % 2 == 0 ? i / 2 : kRecords - 1 - i / 2;  // from both ends
      settled[static_cast<std::size_t>(at)] = true;
      entries[static_cast<std::size_t>(at)]->settle(Ledger::State::kDone);
    }
  });
  begun = true;
  begun.notify_all();
  Progress progress;
  while (progress.watermark < kRecords) {
    progress = ledger.snapshot();
    for (Offset at = 0; at < kRecords; ++at) {
      const bool claimed = at < progress.watermark || contains(progress.done_above, at);
      ASSERT_TRUE(!claimed || settled[static_cast<std::size_t>(at)]) << at;
    }
  }
}

// ---- errors

TEST(Errors, OfEveryKindEndInDoneOrDeadAndNeverInSilence) {
  SimScheduler sim;
  FakeLog log = numbered(60, 60);
  FakeSource source(log);
  const auto letters = std::make_shared<KeptLetters>();
  Pipeline pipeline(
      source, {.retry = {.attempts = 2}, .dead_letters = letters},
      [](const Record& record) {
        switch (record.offset % 6) {
          case 0:
            throw 42;
          case 1:
            throw std::runtime_error("down");
          case 2:
            throw PermanentError("bad");
          case 3:
            return retry("later");
          case 4:
            return permanent_failure("never");
          default:
            return done();
        }
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().done, 10U);
  EXPECT_EQ(letters->offsets.size(), 50U);
  EXPECT_EQ(log.committed[0].watermark, 60);
}

TEST(Errors, ThatMayPassAreTriedAgainAfterExponentiallyLongerWaitsWithFullJitter) {
  SimScheduler sim;
  std::map<int, std::vector<Duration>> waits;  // before try 2, 3, ...
  FakeLog log = numbered(300, 300);
  FakeSource source(log);
  std::map<Offset, TimePoint> ended;
  Pipeline pipeline(
      source,
      {.concurrency = 300, .retry = {.attempts = 7, .first = 100ms, .ceiling = 800ms}, .seed = 5},
      [&](const Record& record, const Attempt& attempt) {
        if (attempt.number > 1) waits[attempt.number].push_back(sim.now() - ended[record.offset]);
        ended[record.offset] = sim.now();
        return attempt.number < 7 ? retry() : done();
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  const std::map<int, Duration> most = {{2, 100ms}, {3, 200ms}, {4, 400ms},
                                        {5, 800ms}, {6, 800ms}, {7, 800ms}};
  for (auto& [number, of_try] : waits) {
    ASSERT_EQ(of_try.size(), 300U);
    std::sort(of_try.begin(), of_try.end());
    EXPECT_LE(of_try.back(), most.at(number));
    // Anything up to the wait, evenly: the quarters are where they should be.
    EXPECT_NEAR(static_cast<double>(of_try[75].count()) / most.at(number).count(), 0.25, 0.08);
    EXPECT_NEAR(static_cast<double>(of_try[225].count()) / most.at(number).count(), 0.75, 0.08);
  }
}

TEST(Errors, ThatMayPassKeepTheRecordInTheRegistry) {
  SimScheduler sim;
  FakeLog log = numbered(10, 10);
  FakeSource source(log);
  StopAfter stop(sim, 1min);
  Pipeline pipeline(
      source, {.retry = {.attempts = 1'000'000}},
      [](const Record& record) { return record.offset == 4 ? retry("still down", 10s) : done(); },
      sim);
  ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
  EXPECT_EQ(log.committed[0], (Progress{.watermark = 4, .done_above = {{5, 10}}}));
}

TEST(Errors, ThatAreFinalAreNotTriedAgain) {
  SimScheduler sim;
  FakeLog log = numbered(1, 1);
  FakeSource source(log);
  const auto letters = std::make_shared<KeptLetters>();
  int tries = 0;
  Pipeline pipeline(
      source, {.dead_letters = letters},
      [&](const Record&) {
        ++tries;
        return permanent_failure("not an order");
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(letters->offsets.size(), 1U);
}

TEST(Errors, OfAPoisonPillCloseTheGapOnceItIsStored) {
  SimScheduler sim;
  FakeLog log = numbered(10, 10);
  FakeSource source(log);
  const auto letters = std::make_shared<KeptLetters>();
  letters->before_store = [&](const Record& record) {
    EXPECT_LE(log.committed[0].watermark, record.offset) << "passed before it was stored";
  };
  Pipeline pipeline(
      source, {.retry = {.attempts = 3}, .dead_letters = letters},
      [](const Record& record) { return record.offset == 0 ? retry("poison") : done(); }, sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(letters->offsets, std::vector<Offset>{0});
  EXPECT_EQ(log.committed[0].watermark, 10);
}

// ---- keys

TEST(Keys, KeepWhatDependsOnEachOtherInOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimScheduler sim(seed);
    FakeLog log;
    for (int i = 0; i < 50; ++i) log.partitions[0].push_back({std::to_string(i), "create"});
    for (int i = 0; i < 50; ++i) log.partitions[0].push_back({std::to_string(i), "add bonus"});
    FakeSource source(log);
    std::set<std::string> users;
    const auto handler = [&](const Record& record) -> Task<void> {
      const std::string user(*record.key);
      const std::uint64_t slow = record.value == "create" ? 10'000 : 1;
      co_await sleep_for(std::chrono::microseconds(sim.random_below(slow)));
      if (record.value == "create") users.insert(user);
      EXPECT_TRUE(users.contains(user)) << "user not found; seed " << seed;
    };
    Pipeline pipeline(source, {.concurrency = 10}, handler, sim);
    ASSERT_TRUE(pipeline.run_until().ok());
  }
}

TEST(Keys, ThatAreHotSlowNoOtherKeyDown) {
  // Nine of ten records are of one key. With a queue per worker, a tenth of the others would stand behind it.
  SimScheduler sim;
  FakeLog log;
  for (int i = 0; i < 1000; ++i) {
    log.partitions[0].push_back({i % 10 == 0 ? "cold " + std::to_string(i) : "hot", "x"});
  }
  FakeSource source(log);
  TimePoint last_cold{};
  const TimePoint began = sim.now();
  const auto handler = [&](const Record& record) -> Task<void> {
    co_await sleep_for(1ms);
    if (*record.key != "hot") last_cold = sim.now();
  };
  Pipeline pipeline(source, {.concurrency = 8}, handler, sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_LE(last_cold - began, 20ms);  // 100 of them, 7 at a time
  EXPECT_LE(sim.now() - began,
            920ms);  // the hot one's own, one after the other, and its first wait
}

TEST(Keys, ThatArePoisonedStarveNoGoodOne) {
  SimScheduler sim;
  FakeLog log;
  for (int i = 0; i < 5000; ++i) {
    log.partitions[0].push_back({i % 2 == 0 ? "poison" : std::to_string(i), "x"});
  }
  FakeSource source(log);
  StopAfter stop(sim, 10min);
  Pipeline pipeline(
      source,
      {.concurrency = 4,
       .retry = {.attempts = 1'000'000},
       .max_in_flight = 100,
       .max_in_flight_per_key = 20},
      [](const Record& record) { return *record.key == "poison" ? retry("down", 1s) : done(); },
      sim);
  ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
  EXPECT_EQ(pipeline.stats().done, 2500U);
}

// ---- back pressure

// Counts what a pipeline asks of its source.
struct WatchedSource final : FakeSource {
  using FakeSource::FakeSource;
  void pause(PartitionId id) override {
    ++pauses[id];
    FakeSource::pause(id);
  }
  std::map<PartitionId, int> pauses;
};

TEST(BackPressure, StopsReadingWhenAsMuchIsInFlightAsMayAndDoesNotFlutter) {
  SimScheduler sim;
  FakeLog log = numbered(10'000, 10'000);
  WatchedSource source(log);
  source.batch = 10;
  std::uint64_t most = 0;
  Pipeline* running = nullptr;
  const auto handler = [&](const Record&) -> Task<void> {
    most = std::max(most, running->stats().in_flight);
    co_await sleep_for(1ms);
  };
  Pipeline pipeline(source, {.concurrency = 4, .max_in_flight = 400}, handler, sim);
  running = &pipeline;
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_LE(most, 400U + 10U);
  // It reads again when a fourth is free: not once for each record.
  EXPECT_GE(source.pauses[0], 10);
  EXPECT_LE(source.pauses[0], 10'000 / 100 + 1);
}

TEST(BackPressure, CountsBytes) {
  SimScheduler sim;
  FakeLog log;
  for (int i = 0; i < 100; ++i) {
    log.partitions[0].push_back({std::to_string(i), std::string(1000, 'x')});
  }
  FakeSource source(log);
  source.batch = 1;
  std::uint64_t most = 0;
  Pipeline* running = nullptr;
  const auto handler = [&](const Record&) -> Task<void> {
    most = std::max(most, running->stats().in_flight_bytes);
    co_await sleep_for(1ms);
  };
  Pipeline pipeline(source, {.concurrency = 2, .max_in_flight_bytes = 10'000}, handler, sim);
  running = &pipeline;
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_LE(most, 10'000U);
  EXPECT_GE(most, 9'000U);
}

TEST(BackPressure, ReadsNoMoreThanTheWindowWhileTheFirstRecordStays) {
  SimScheduler sim;
  FakeLog log = numbered(1000, 1000);
  FakeSource source(log);
  source.batch = 1;
  StopAfter stop(sim, 1h);
  const auto handler = [](const Record& record) -> Task<void> {
    if (record.offset == 0) co_await sleep_for(2h);
  };
  Pipeline pipeline(source, {.max_window = 100, .shutdown_wait = 1s}, handler, sim);
  ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
  EXPECT_EQ(pipeline.stats().read, 100U);
}

TEST(BackPressure, OfOnePartitionLeavesTheOthersAlone) {
  SimScheduler sim;
  FakeLog log;
  for (PartitionId id = 0; id < 2; ++id) {
    for (int i = 0; i < 1000; ++i)
      log.partitions[id].push_back({std::to_string(id * 1000 + i), "x"});
  }
  WatchedSource source(log);
  source.batch = 10;
  std::map<PartitionId, int> done;
  StopAfter stop(sim, 1h);
  const auto handler = [&](const Record& record) -> Task<void> {
    if (record.partition == 0) co_await sleep_for(2h);
    ++done[record.partition];
  };
  Pipeline pipeline(source, {.concurrency = 100, .max_in_flight = 50, .shutdown_wait = 1s}, handler,
                    sim);
  (void)pipeline.run_until(stop.token());
  EXPECT_EQ(done[1], 1000);
  EXPECT_EQ(source.pauses[0], 1);
}

// ---- stopping, and giving partitions back

TEST(Stop, TakesItsFiveSteps) {
  SimScheduler sim;
  FakeLog log = numbered(40, 40);
  FakeSource source(log);
  source.ends = false;
  StopAfter stop(sim, 500ms);
  std::vector<Offset> begun;
  const TimePoint began = sim.now();
  const auto handler = [&](const Record& record) -> Task<Outcome> {
    begun.push_back(record.offset);
    if (record.offset == 3) co_return retry("later", 1h);  // waits for its next try: is given up
    co_await sleep_for(400ms);
    co_return done();
  };
  Pipeline pipeline(source, {.concurrency = 5}, handler, sim);
  const Result<PipelineEnd> end = pipeline.run_until(stop.token());
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->why, PipelineEnd::kStopped);
  // No new ones after 500 ms; what ran was waited for, what rested was not.
  EXPECT_EQ(sim.now() - began, 800ms);
  EXPECT_EQ(begun.size(), 11U);
  // The last commit: up to the gap, and what is done above it.
  EXPECT_EQ(log.committed[0], (Progress{.watermark = 3, .done_above = {{4, 11}}}));
  EXPECT_EQ(pipeline.stats().read, pipeline.stats().done + pipeline.stats().dropped);
}

TEST(Stop, WaitsNoLongerThanItsBound) {
  SimScheduler sim;
  FakeLog log = numbered(4, 4);
  FakeSource source(log);
  StopAfter stop(sim, 1s);
  bool over = false;
  const auto handler = [&](const Record& record) -> Task<void> {
    if (record.offset == 1) co_await sleep_for(1h);
    EXPECT_FALSE(over && record.offset != 1);
  };
  const TimePoint began = sim.now();
  Duration took{};
  {
    Pipeline pipeline(source, {.shutdown_wait = 5s}, handler, sim);
    ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
    over = true;
    took = sim.now() - began;
  }
  EXPECT_EQ(took, 6s);
  EXPECT_EQ(log.committed[0], (Progress{.watermark = 1, .done_above = {{2, 4}}}));
}

TEST(Stop, TellsThatTheLastCommitWasNotStored) {
  for (const Duration wait : {Duration{0}, Duration{1s}}) {
    SimScheduler sim;
    FakeLog log = numbered(3, 3);
    FakeSource source(log);
    source.on_commit = [](std::span<const Progress>) {
      return Error{.code = ErrorCode::kIo, .message = "disk full", .retryable = true};
    };
    Pipeline pipeline(
        source, {.commit_interval = 1h, .shutdown_wait = wait}, [](const Record&) {}, sim);
    const Result<PipelineEnd> end = pipeline.run_until();
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().message, "disk full");
    EXPECT_EQ(log.committed[0].watermark, 0);
  }
}

// ---- duplicates

// As a source that keeps the watermark and nothing else.
struct NoGapMaps final : FakeSource {
  using FakeSource::FakeSource;
  Result<void> commit(std::span<const Progress> progress) override {
    std::vector<Progress> bare(progress.begin(), progress.end());
    for (Progress& one : bare) one.done_above.clear();
    return FakeSource::commit(bare);
  }
};

TEST(Duplicates, ComeFromAboveAGapAndTheStoreOfHandledIdsCatchesThem) {
  for (const bool remembers : {false, true}) {
    SimScheduler sim;
    FakeLog log = numbered(10, 10);
    const auto ids = remembers ? std::make_shared<KeptIds>() : nullptr;
    std::map<Offset, int> handled;
    for (int run = 0; run < 2; ++run) {
      NoGapMaps source(log);
      StopAfter stop(sim, 1min);
      Pipeline pipeline(
          source, {.handled_ids = ids},
          [&](const Record& record) {
            if (run == 0 && record.offset == 4) return retry("down", 1h);
            ++handled[record.offset];
            return done();
          },
          sim);
      ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
      EXPECT_EQ(log.committed[0].watermark, run == 0 ? 4 : 10);
    }
    for (const auto& [offset, times] : handled) {
      EXPECT_EQ(times, offset > 4 && !remembers ? 2 : 1) << offset;
    }
    EXPECT_EQ(handled.size(), 10U);
  }
}

}  // namespace
}  // namespace keyway
