#include "keyway/pipeline.h"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"
#include "support/memory.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(Pipeline, HandlesEveryRecordAndCommitsToTheEnd) {
  SimScheduler sim;
  FakeLog log = numbered(1000, 7, 3);
  FakeSource source(log);
  int handled = 0;
  Pipeline pipeline(source, {}, [&](const Record&) { ++handled; }, sim);
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->why, PipelineEnd::kSourceEnded);
  EXPECT_EQ(handled, 1000);
  for (const auto& [id, lines] : log.partitions) {
    EXPECT_EQ(log.committed[id].watermark, static_cast<Offset>(lines.size()));
  }
  const PipelineStats stats = pipeline.stats();
  EXPECT_EQ(stats.read, 1000U);
  EXPECT_EQ(stats.done, 1000U);
  EXPECT_EQ(stats.in_flight, 0U);
  EXPECT_EQ(stats.in_flight_bytes, 0U);
}

// The source is not open yet, so the pipeline must not read it.
TEST(Pipeline, APartitionMayBePausedBeforeThePipelineRuns) {
  SimScheduler sim;
  FakeLog log = numbered(20, 3);
  FakeSource source(log);
  int handled = 0;
  Pipeline pipeline(source, {}, [&](const Record&) { ++handled; }, sim);
  pipeline.pause_partition(0);
  pipeline.resume_partition(0);
  sim.run_until_idle();
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(handled, 20);
}

TEST(Pipeline, ExplainsInTheWordsOfItsInterface) {
  SimScheduler sim;
  FakeLog log = numbered(6, 2);
  FakeSource source(log);
  std::vector<std::string> said;
  std::optional<Pipeline> pipeline;
  const auto handler = [&](const Record& record) -> Task<void> {
    co_await sleep_for(1s);
    if (!said.empty()) co_return;
    said.push_back(pipeline->explain(*record.key).text());
    pipeline->pause_key(*record.key);
    said.push_back(pipeline->explain(*record.key).text());
    pipeline->resume_key(*record.key);
    pipeline->pause();
    said.push_back(pipeline->explain(*record.key).text());
    pipeline->resume();
  };
  pipeline.emplace(source, PipelineOptions{.concurrency = 1}, handler, sim);
  EXPECT_TRUE(pipeline->run_until().ok());
  ASSERT_EQ(said.size(), 3U);
  EXPECT_EQ(said[0],
            "1 of 1 running; oldest 1.0 s; 2 waiting; goes on when a record of the key ends");
  EXPECT_EQ(said[1], "1 of 1 running; oldest 1.0 s; 2 waiting; paused, goes on with resume_key()");
  EXPECT_EQ(said[2],
            "1 of 1 running; oldest 1.0 s; 2 waiting; all records are paused, goes on with "
            "resume()");
}

TEST(Pipeline, KeepsTheOrderOfAKeyAndRunsKeysSideBySide) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SimScheduler sim(seed);
    FakeLog log = numbered(60, 5);
    FakeSource source(log);
    std::map<std::string, int> last;
    std::map<std::string, int> running;
    int most_at_once = 0;
    int at_once = 0;
    const auto handler = [&](const Record& record) -> Task<void> {
      const std::string key(*record.key);
      const int number = std::stoi(std::string(record.value));
      EXPECT_EQ(++running[key], 1) << "seed " << seed;
      EXPECT_TRUE(!last.contains(key) || last[key] < number) << "seed " << seed;
      last[key] = number;
      most_at_once = std::max(most_at_once, ++at_once);
      co_await sleep_for(1ms);
      --at_once;
      --running[key];
    };
    Pipeline pipeline(source, {.concurrency = 4}, handler, sim);
    EXPECT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(most_at_once, 4);
  }
}

TEST(Pipeline, TriesAgainWithoutHoldingAnythingButTheKey) {
  SimScheduler sim;
  FakeLog log = numbered(20, 4);
  FakeSource source(log);
  std::vector<std::string> order;
  // The first record fails three times; with a concurrency of 1 all other keys pass it meanwhile.
  Pipeline pipeline(
      source, {.concurrency = 1, .seed = 1},
      [&](const Record& record, const Attempt& attempt) {
        if (record.value == "0" && attempt.number < 4) return retry("not yet", 1h);
        order.emplace_back(record.value);
        return done();
      },
      sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  ASSERT_EQ(order.size(), 20U);
  EXPECT_EQ(order[15], "0");
  EXPECT_EQ(order[16], "4");
  EXPECT_EQ(pipeline.stats().retries, 3U);
  EXPECT_EQ(pipeline.stats().done_after_retry, 1U);
}

TEST(Pipeline, AThrowIsARetryUnlessItIsPermanent) {
  SimScheduler sim;
  FakeLog log = numbered(2, 2);
  FakeSource source(log);
  auto letters = std::make_shared<KeptLetters>();
  std::map<std::string, int> attempts;
  Pipeline pipeline(
      source, {.retry = {.attempts = 3}, .dead_letters = letters},
      [&](const Record& record) {
        ++attempts[std::string(record.value)];
        if (record.value == "0") throw std::runtime_error("database is down");
        throw PermanentError("no such account");
      },
      sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(attempts["0"], 3);
  EXPECT_EQ(attempts["1"], 1);
  EXPECT_EQ(letters->values, (std::vector<std::string>{"1", "0"}));
  EXPECT_EQ(letters->causes, (std::vector<std::string>{"no such account", "database is down"}));
  EXPECT_EQ(log.committed[0].watermark, 2);
  EXPECT_EQ(pipeline.stats().dead, 2U);
}

TEST(Pipeline, EndsWithAnErrorIfADeadLetterCannotBeStored) {
  SimScheduler sim;
  FakeLog log = numbered(10, 10);
  FakeSource source(log);
  auto letters = std::make_shared<KeptLetters>();
  letters->error = Error{ErrorCode::kIo, "disk full"};
  Pipeline pipeline(
      source, {.dead_letters = letters},
      [](const Record& record) { return record.value == "3" ? permanent_failure("bad") : done(); },
      sim);
  const auto end = pipeline.run_until();
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().message, "disk full");
  EXPECT_LE(log.committed[0].watermark, 3) << "the watermark passed a record that is lost";
}

TEST(Pipeline, ParksAKeyBehindItsDeadRecord) {
  SimScheduler sim;
  FakeLog log = numbered(9, 3);
  FakeSource source(log);
  auto letters = std::make_shared<KeptLetters>();
  std::vector<std::string> handled;
  Pipeline pipeline(
      source, {.concurrency = 1, .dead_letters = letters, .on_dead = OnDead::kPark},
      [&](const Record& record) {
        if (record.value == "1") return permanent_failure("bad");
        handled.emplace_back(record.value);
        return done();
      },
      sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(handled.size(), 6U);
  EXPECT_EQ(letters->values, (std::vector<std::string>{"1", "4", "7"}));
}

TEST(Pipeline, HaltsAtADeadRecordIfToldSo) {
  SimScheduler sim;
  FakeLog log = numbered(100, 1);
  FakeSource source(log);
  Pipeline pipeline(
      source, {.dead_letters = std::make_shared<KeptLetters>(), .on_dead = OnDead::kHalt},
      [](const Record& record) { return record.value == "10" ? permanent_failure("bad") : done(); },
      sim);
  const auto end = pipeline.run_until();
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->why, PipelineEnd::kHalted);
  EXPECT_EQ(end->halted_by, "fake:0:10");
  EXPECT_EQ(log.committed[0].watermark, 11);
}

TEST(Pipeline, CommitsWhatIsDoneAboveAGapAndDoesNotHandleItAgain) {
  SimScheduler sim;
  FakeLog log = numbered(10, 10);
  std::stop_source stop;
  {
    FakeSource source(log);
    int others = 0;
    const auto handler = [&](const Record& record) -> Task<Outcome> {
      if (record.value == "2") co_return retry("later", 1h);
      if (++others == 9) stop.request_stop();
      co_return done();
    };
    Pipeline pipeline(source, {}, handler, sim);
    const auto end = pipeline.run_until(stop.get_token());
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(end->why, PipelineEnd::kStopped);
    EXPECT_EQ(log.committed[0], (Progress{.watermark = 2, .done_above = {{3, 10}}}));
  }
  FakeSource source(log);
  std::vector<std::string> handled;
  Pipeline pipeline(
      source, {}, [&](const Record& record) { handled.emplace_back(record.value); }, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(handled, (std::vector<std::string>{"2"}));
  EXPECT_EQ(log.committed[0], (Progress{.watermark = 10}));
}

TEST(Pipeline, IsNotCleanUntilTheCommitIsAcknowledged) {
  SimScheduler sim;
  FakeLog log = numbered(5, 5);
  FakeSource source(log);
  int refused = 0;
  source.on_commit = [&](std::span<const Progress>) -> Result<void> {
    if (++refused <= 3) return Error{ErrorCode::kIo, "broker is away", /*retryable=*/true};
    return {};
  };
  Pipeline pipeline(source, {}, [](const Record&) {}, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(log.committed[0].watermark, 5);
  EXPECT_EQ(pipeline.stats().failed_commits, 3U);
}

// Every fourth record becomes a dead letter, which counts as well.
TEST(Pipeline, CommitsAfterAsManyRecordsAsItShall) {
  SimScheduler sim;
  FakeLog log = numbered(100, 1);
  FakeSource source(log);
  const auto handler = [&](const Record& record) -> Task<Outcome> {
    co_await sleep_for(1ms);
    EXPECT_LE(record.offset - log.committed[0].watermark, 10);
    co_return record.offset % 4 == 0 ? permanent_failure("bad") : done();
  };
  Pipeline pipeline(
      source,
      {.dead_letters = std::make_shared<KeptLetters>(), .commit_interval = 1h, .commit_every = 10},
      handler, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().commits, 10U);
}

TEST(Pipeline, CommitsBeforeItHandlesIfARecordMayComeAtMostOnce) {
  SimScheduler sim;
  FakeLog log = numbered(300, 300);
  FakeSource source(log);
  source.batch = 50;
  Pipeline pipeline(
      source, {.delivery = Delivery::kAtMostOnce},
      [&](const Record& record) { EXPECT_GT(log.committed[0].watermark, record.offset); }, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().done, 300U);
}

TEST(Pipeline, HandlesNothingThatMayComeAtMostOnceWhileItsCommitFails) {
  SimScheduler sim;
  FakeLog log = numbered(300, 300);
  FakeSource source(log);
  source.batch = 50;
  int commits = 0;
  source.on_commit = [&](std::span<const Progress>) -> Result<void> {
    if (++commits % 3 != 0) return Error{ErrorCode::kIo, "away", /*retryable=*/true};
    return {};
  };
  Pipeline pipeline(
      source, {.delivery = Delivery::kAtMostOnce},
      [&](const Record& record) { EXPECT_GT(log.committed[0].watermark, record.offset); }, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().done, 300U);
  EXPECT_GE(pipeline.stats().failed_commits, 12U);
}

TEST(Pipeline, KeepsKeysOfAnyLengthAndContentInOrder) {
  SimScheduler sim(3);
  FakeLog log;
  const std::vector<std::string> keys = {"", "\x01unordered", std::string(100'000, 'k'),
                                         std::string("\0", 1)};
  for (int i = 0; i < 40; ++i) {
    log.partitions[0].push_back({keys[static_cast<std::size_t>(i) % 4], std::to_string(i)});
  }
  FakeSource source(log);
  std::map<std::string, int> last;
  std::map<std::string, int> running;
  const auto handler = [&](const Record& record) -> Task<void> {
    const std::string key(*record.key);
    EXPECT_EQ(++running[key], 1);
    co_await sleep_for(std::chrono::milliseconds(50 - number(record)));
    EXPECT_TRUE(!last.contains(key) || last[key] < number(record));
    last[key] = number(record);
    --running[key];
  };
  Pipeline pipeline(source, {.concurrency = 8}, handler, sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().done, 40U);
}

// What is read beyond a bound before the partition is paused: one poll, but for the record that found room.
constexpr std::uint64_t kReadAhead = 256 - 1;

TEST(Pipeline, HoldsNoMoreThanItMayWhenTheFirstRecordNeverEnds) {
  SimScheduler sim;
  FakeLog log = numbered(100'000, 1000);
  FakeSource source(log);
  std::stop_source stop;
  std::uint64_t most_read = 0;
  const PipelineOptions options{
      .max_in_flight = 500, .max_in_flight_per_key = 50, .max_window = 20'000};
  Pipeline* self = nullptr;
  const auto handler = [&](const Record& record) -> Task<Outcome> {
    if (record.value == "0") {
      co_await sleep_for(1min);
      most_read = self->stats().read;
      stop.request_stop();
    }
    co_return done();
  };
  Pipeline pipeline(source, options, handler, sim);
  self = &pipeline;
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  // The other keys went on as far as the window allows, and no further: a partition that was paused is resumed when a
  // fourth of the window is free.
  EXPECT_GE(most_read, options.max_window / 4 * 3);
  EXPECT_LE(most_read, options.max_window + kReadAhead);
  EXPECT_EQ(pipeline.stats().read, most_read);
  // Of the first record's own key, every thousandth is not done.
  const std::uint64_t of_its_key = (most_read + 999) / 1000;
  EXPECT_GE(pipeline.stats().done, most_read - of_its_key);
}

TEST(Pipeline, HoldsNoMoreThanItMayWhenRecordsComeFasterThanTheyAreHandled) {
  SimScheduler sim;
  FakeLog log = numbered(5'000, 1000, 2);
  FakeSource source(log);
  source.batch = 100;
  std::uint64_t most_in_flight = 0;
  Pipeline* self = nullptr;
  const auto handler = [&](const Record&) -> Task<void> {
    most_in_flight = std::max(most_in_flight, self->stats().in_flight);
    co_await sleep_for(1ms);
  };
  Pipeline pipeline(source, {.concurrency = 4, .max_in_flight = 500}, handler, sim);
  self = &pipeline;
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(pipeline.stats().done, 5'000U);
  // Of each of the two partitions.
  EXPECT_GE(most_in_flight, 2 * 500U);
  EXPECT_LE(most_in_flight, 2 * (500U + source.batch - 1));
}

TEST(Pipeline, WaitsForWhatRunsWhenAPartitionIsRevokedAndCommitsIt) {
  SimScheduler sim;
  FakeLog log = numbered(20, 20, 2);
  FakeSource source(log);
  source.ends = false;
  std::stop_source stop;
  int begun = 0;
  const auto handler = [&](const Record& record) -> Task<void> {
    if (++begun == 4) source.take_away(record.partition, PartitionEvent::kRevoked);
    co_await sleep_for(1s);
  };
  struct Later final : Timer {
    void fire() override { source->request_stop(); }
    std::stop_source* source = nullptr;
  } later;
  later.source = &stop;
  sim.add_timer(later, sim.now() + 1min);
  Pipeline pipeline(source, {.concurrency = 4}, handler, sim);
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  const PipelineStats stats = pipeline.stats();
  EXPECT_EQ(stats.read, stats.done + stats.dropped);
  EXPECT_GT(stats.dropped, 0U);
  std::uint64_t covered = 0;
  for (const auto& [id, progress] : log.committed) {
    covered += static_cast<std::uint64_t>(progress.watermark);
    for (const OffsetRange& range : progress.done_above) {
      covered += static_cast<std::uint64_t>(range.end - range.begin);
    }
  }
  EXPECT_EQ(covered, stats.done) << "not all that was done was committed";
}

TEST(Pipeline, RecordsWithoutAKeyAreInOrderWithNoOther) {
  SimScheduler sim;
  FakeLog log;
  for (int i = 0; i < 32; ++i) log.partitions[0].push_back({std::nullopt, std::to_string(i)});
  FakeSource source(log);
  int at_once = 0;
  int most = 0;
  const auto handler = [&](const Record&) -> Task<void> {
    most = std::max(most, ++at_once);
    co_await sleep_for(1ms);
    --at_once;
  };
  Pipeline pipeline(source, {.concurrency = 8}, handler, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(most, 8);
}

TEST(Pipeline, LosesAndReordersNothingOnRealThreads) {
  constexpr int kRecords = kSanitized ? 20'000 : 200'000;
  FakeLog log = numbered(kRecords, 100, 2);
  FakeSource source(log);
  std::map<std::string, int> last;  // not atomic: a key orders its own
  for (int i = 0; i < 100; ++i) last["key " + std::to_string(i)] = -1;
  std::atomic<int> tries = 0;
  Pipeline pipeline(source, {.concurrency = 4, .retry = {.first = 1us}, .commit_interval = 1ms},
                    [&](const Record& record, const Attempt& attempt) {
                      if (attempt.number == 1 && ++tries % 1000 == 0) return retry("once more");
                      int& before = last.at(std::string(*record.key));
                      const int number = std::stoi(std::string(record.value));
                      EXPECT_LT(before, number);
                      before = number;
                      return done();
                    });
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(pipeline.stats().done, static_cast<std::uint64_t>(kRecords));
  EXPECT_GT(pipeline.stats().done_after_retry, 0U);
  EXPECT_EQ(log.committed[0].watermark, kRecords / 2);
  EXPECT_EQ(log.committed[1].watermark, kRecords / 2);
}

TEST(Pipeline, StopsOnRealThreadsWithWorkInFlight) {
  for (int round = 0; round < 50; ++round) {
    FakeLog log = numbered(5'000, 20);
    FakeSource source(log);
    std::stop_source stop;
    std::atomic<int> handled = 0;
    {
      Pipeline pipeline(source, {.concurrency = 3, .commit_interval = 1ms}, [&](const Record&) {
        if (++handled == 1 + round * 20) stop.request_stop();
      });
      ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
      EXPECT_EQ(pipeline.stats().done, static_cast<std::uint64_t>(handled));
    }
    Offset covered = log.committed[0].watermark;
    for (const OffsetRange& range : log.committed[0].done_above) covered += range.end - range.begin;
    EXPECT_EQ(covered, handled);
  }
}

TEST(Pipeline, AnAttemptThatTakesTooLongIsARetry) {
  SimScheduler sim;
  FakeLog log = numbered(1, 1);
  FakeSource source(log);
  int attempts = 0;
  const auto handler = [&](const Record&) -> Task<void> {
    if (++attempts < 3) co_await sleep_for(1h);
  };
  Pipeline pipeline(source, {.retry = {.attempt_timeout = 1s}}, handler, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(attempts, 3);
}

}  // namespace
}  // namespace keyway
