// What a pipeline can be told besides: which key and group a record has, limits, rates, what was handled before; and
// what it tells.
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(PipelineClassify, GivesRecordsTheirKeysAndSoTheirOrder) {
  SimScheduler sim(7);
  FakeLog log = keyless(40);
  FakeSource source(log);
  std::vector<int> even;
  PipelineOptions options{.concurrency = 8};
  options.classify = [](Record& record) -> Result<bool> {
    record.key = number(record) % 2 == 0 ? "even" : "odd";
    return true;
  };
  const auto handler = [&](const Record& record) -> Task<void> {
    co_await sleep_for(std::chrono::milliseconds(50 - number(record)));
    if (*record.key == "even") even.push_back(number(record));
  };
  Pipeline pipeline(source, std::move(options), handler, sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  ASSERT_EQ(even.size(), 20U);
  EXPECT_TRUE(std::is_sorted(even.begin(), even.end()));
}

TEST(PipelineClassify, LeavesOutWhatItDoesNotWantAndCommitsPastIt) {
  SimScheduler sim;
  FakeLog log = keyless(10);
  FakeSource source(log);
  std::vector<int> handled;
  PipelineOptions options;
  options.classify = [](Record& record) -> Result<bool> { return number(record) < 5; };
  Pipeline pipeline(
      source, std::move(options), [&](const Record& record) { handled.push_back(number(record)); },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(handled.size(), 5U);
  EXPECT_EQ(pipeline.stats().left_out, 5U);
  EXPECT_EQ(log.committed[0].watermark, 10);
}

TEST(PipelineClassify, EndsThePipelineWithAnErrorThatNamesThePlace) {
  SimScheduler sim;
  FakeLog log = keyless(10);
  FakeSource source(log);
  std::set<int> handled;
  PipelineOptions options;
  options.classify = [](Record& record) -> Result<bool> {
    if (number(record) == 6) return Error{ErrorCode::kInvalidArgument, "no value at .user"};
    return true;
  };
  Pipeline pipeline(
      source, std::move(options), [&](const Record& record) { handled.insert(number(record)); },
      sim);
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().message, "fake:0:6: no value at .user");
  EXPECT_LE(log.committed[0].watermark, 6);  // it will be met again
}

TEST(PipelineClassify, EndsThePipelineIfItThrows) {
  SimScheduler sim;
  FakeLog log = keyless(10);
  FakeSource source(log);
  PipelineOptions options;
  options.classify = [](Record& record) -> Result<bool> {
    if (number(record) == 6) throw std::runtime_error("no value at .user");
    return true;
  };
  Pipeline pipeline(source, std::move(options), [](const Record&) {}, sim);
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().message, "fake:0:6: classify threw: no value at .user");
  EXPECT_LE(log.committed[0].watermark, 6);
}

TEST(PipelineClassify, MakesADefectADeadLetterWithoutATry) {
  SimScheduler sim;
  FakeLog log = keyless(4);
  FakeSource source(log);
  const auto letters = std::make_shared<KeptLetters>();
  int handled = 0;
  PipelineOptions options{.dead_letters = letters};
  options.classify = [](Record& record) -> Result<bool> {
    if (number(record) == 2) record.defect = "not JSON";
    return true;
  };
  Pipeline pipeline(source, std::move(options), [&](const Record&) { ++handled; }, sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(handled, 3);
  EXPECT_EQ(letters->ids, std::vector<std::string>{"0:2"});
  EXPECT_EQ(letters->causes, std::vector<std::string>{"not JSON"});
  EXPECT_EQ(letters->attempts, std::vector<int>{0});
  EXPECT_EQ(log.committed[0].watermark, 4);
}

// Four keys in each of two groups; at most so many of a group at once.
struct Groups {
  explicit Groups(std::uint64_t seed) : sim(seed), log(keyless(80)), source(log) {
    options.concurrency = 6;
    options.by_group = true;
    options.classify = [](Record& record) -> Result<bool> {
      static const std::array<std::string, 8> keys = {"a", "b", "c", "d", "e", "f", "g", "h"};
      const auto key = static_cast<std::size_t>(number(record) % 8);
      record.key = keys[key];
      record.group = key < 4 ? "left" : "right";
      return true;
    };
  }
  Task<void> handle(const Record* record) {
    const std::string group(*record->group);
    const std::string key(*record->key);
    most[group] = std::max(most[group], ++running[group]);
    most_in_all = std::max(most_in_all, running["left"] + running["right"]);
    EXPECT_EQ(++of_key[key], 1);
    EXPECT_TRUE(!last.contains(key) || last[key] < number(*record));
    last[key] = number(*record);
    co_await sleep_for(1ms);
    --of_key[key];
    --running[group];
  }
  void run() {
    Pipeline pipeline(
        source, options, [this](const Record& record) { return handle(&record); }, sim);
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(pipeline.stats().done, 80U);
  }

  SimScheduler sim;
  FakeLog log;
  FakeSource source;
  PipelineOptions options;
  std::map<std::string, int> running, most, of_key, last;
  int most_in_all = 0;
};

TEST(PipelineGroups, LimitsGroupsBesidesTheOrderOfKeys) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Groups groups(seed);
    groups.options.limits["left"] = {.max_concurrency = 3};
    groups.run();
    EXPECT_EQ(groups.most["left"], 3) << "seed " << seed;
    EXPECT_EQ(groups.most["right"], 1) << "seed " << seed;
  }
}

TEST(PipelineGroups, HandleNoMoreRecordsAtOnceThanConcurrency) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Groups groups(seed);
    groups.options.concurrency = 3;
    groups.options.group_concurrency = 2;
    groups.run();
    EXPECT_EQ(groups.most_in_all, 3) << "seed " << seed;
    EXPECT_EQ(groups.most["left"], 2) << "seed " << seed;
  }
}

TEST(PipelineGroups, LetsNoFullGroupKeepAnotherFromGoingOn) {
  Groups groups(1);
  groups.options.concurrency = 2;
  groups.options.group_concurrency = 1;
  const TimePoint began = groups.sim.now();
  groups.run();
  // Both groups, one at a time each: half the time of all records in a row.
  EXPECT_EQ(groups.sim.now() - began, 40ms);
}

TEST(PipelineGroups, TakeLimitsByNameOfKeysWhereThereAreNoGroups) {
  SimScheduler sim(3);
  FakeLog log;
  for (int i = 0; i < 40; ++i) log.partitions[0].push_back({i % 2 == 0 ? "wide" : "narrow", "x"});
  FakeSource source(log);
  std::map<std::string, int> running, most;
  const auto handler = [&](const Record& record) -> Task<void> {
    const std::string key(*record.key);
    most[key] = std::max(most[key], ++running[key]);
    co_await sleep_for(1ms);
    --running[key];
  };
  PipelineOptions options{.concurrency = 10};
  options.limits["wide"] = {.max_concurrency = 4};
  Pipeline pipeline(source, std::move(options), handler, sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(most["wide"], 4);
  EXPECT_EQ(most["narrow"], 1);
}

TEST(PipelineRate, BeginsNoMoreAttemptsThanItAllows) {
  SimScheduler sim;
  FakeLog log = keyless(101);
  FakeSource source(log);
  std::vector<TimePoint> begun;
  Pipeline pipeline(
      source,
      {.concurrency = 1,
       .retry = {.first = Duration(1)},
       .rate = RateLimit{.per_second = 10, .burst = 5}},
      [&](const Record& record, const Attempt& attempt) {
        begun.push_back(sim.now());
        return number(record) == 50 && attempt.number == 1 ? retry("once more") : done();
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  ASSERT_EQ(begun.size(), 102U);
  for (std::size_t i = 5; i < begun.size(); ++i) {
    EXPECT_GE(begun[i] - begun[0], (i - 4) * 100ms) << i;
  }
  EXPECT_GE(begun.back() - begun.front(), 9'700ms);
  EXPECT_LE(begun.back() - begun.front(), 9'801ms);
}

TEST(PipelineDedup, HandlesWhatIsInTheStoreNoMore) {
  SimScheduler sim;
  FakeLog log = keyless(10);
  const auto ids = std::make_shared<KeptIds>();
  for (int run = 0; run < 2; ++run) {
    log.committed.clear();  // all of it comes again
    FakeSource source(log);
    int handled = 0;
    Pipeline pipeline(source, {.handled_ids = ids}, [&](const Record&) { ++handled; }, sim);
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(handled, run == 0 ? 10 : 0);
    EXPECT_EQ(pipeline.stats().duplicates, run == 0 ? 0U : 10U);
    EXPECT_EQ(log.committed[0].watermark, 10);
  }
}

TEST(PipelineDedup, DoesNotCommitARecordWhoseIdCouldNotBeStored) {
  SimScheduler sim;
  FakeLog log = keyless(10);
  FakeSource source(log);
  const auto ids = std::make_shared<KeptIds>();
  Pipeline pipeline(
      source, {.concurrency = 1, .handled_ids = ids},
      [&](const Record& record) {
        if (number(record) == 4) ids->error = Error{ErrorCode::kIo, "disk full"};
      },
      sim);
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().message, "disk full");
  EXPECT_LE(log.committed[0].watermark, 4);
}

TEST(PipelineStatsTest, ShowWatermarkGapsRetriesAndTheOldest) {
  SimScheduler sim;
  FakeLog log = keyless(20);
  FakeSource source(log);
  PipelineStats seen;
  Pipeline* running = nullptr;
  const auto handler = [&](const Record& record, const Attempt& attempt) -> Task<Outcome> {
    if (number(record) == 3 && attempt.number == 1) co_return retry("later", 10s);
    if (number(record) == 19) co_await sleep_for(5s);
    if (number(record) == 19) seen = running->stats();
    co_return done();
  };
  Pipeline pipeline(source, {.concurrency = 4}, handler, sim);
  running = &pipeline;
  ASSERT_TRUE(pipeline.run_until().ok());
  ASSERT_EQ(seen.partitions.size(), 1U);
  const PartitionStats& partition = seen.partitions[0];
  EXPECT_EQ(partition.watermark, 3);
  EXPECT_EQ(partition.committed, 3);
  EXPECT_EQ(partition.read, 20);
  EXPECT_EQ(partition.retrying, 1U);
  EXPECT_EQ(partition.pending, 1U);
  EXPECT_EQ(partition.done_above, 15U);
  EXPECT_EQ(partition.gaps, 1U);
  EXPECT_GE(partition.oldest_incomplete, 3s);
  const PipelineStats after = pipeline.stats();
  EXPECT_EQ(after.handling.count, 21U);
  EXPECT_EQ(after.waiting.count, 21U);
  EXPECT_EQ(after.handling.max, 5s);
  EXPECT_GT(after.committing.count, 0U);
  ASSERT_EQ(after.partitions.size(), 1U);
  EXPECT_EQ(after.partitions[0].watermark, 20);
  EXPECT_EQ(after.partitions[0].oldest_incomplete, 0s);
}

TEST(PipelinePause, OfAPartitionLeavesTheOthersAlone) {
  SimScheduler sim;
  FakeLog log;
  for (PartitionId id = 0; id < 2; ++id) {
    for (int i = 0; i < 50; ++i) log.partitions[id].push_back({{}, "x"});
  }
  FakeSource source(log);
  source.batch = 10;
  std::map<PartitionId, int> handled;
  Pipeline* running = nullptr;
  const auto handler = [&](const Record& record) {
    if (++handled[record.partition] == 1 && record.partition == 1) running->pause_partition(1);
    if (record.partition == 0 && handled[0] == 50) {
      EXPECT_LT(handled[1], 50);
      running->resume_partition(1);
    }
  };
  Pipeline pipeline(source, {.concurrency = 1}, handler, sim);
  running = &pipeline;
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(handled[1], 50);
}

TEST(PipelinePause, OfAKeyDoesNotKeepThePipelineFromStopping) {
  SimScheduler sim;
  FakeLog log;
  log.partitions[0] = {{"a", "x"}, {"k", "y"}};
  FakeSource source(log);
  std::stop_source stop;
  const auto handler = [&](const Record&) { stop.request_stop(); };
  Pipeline pipeline(source, {.shutdown_wait = 1h}, handler, sim);
  pipeline.pause_key("k");
  const TimePoint began = sim.now();
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_LT(sim.now() - began, 1min);
}

// ---- options out of range

std::string refused(PipelineOptions options) {
  SimScheduler sim;
  FakeLog log = keyless(1);
  FakeSource source(log);
  const Result<void> valid = options.validate();
  try {
    const Pipeline pipeline(source, std::move(options), [](const Record&) {}, sim);
    EXPECT_TRUE(valid.ok());
    return "";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_FALSE(valid.ok());
    return error.what();
  }
}

TEST(PipelineOptions, ThatAreOutOfRangeAreRefusedByTheNamesOfTheUser) {
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({.key_concurrency = 0}), "key_concurrency is 0; it must be at least 1");
  EXPECT_EQ(refused({.concurrency = 0}), "concurrency is 0; it must be at least 1");
  EXPECT_EQ(refused({.group_concurrency = 0}), "group_concurrency is 0; it must be at least 1");
  EXPECT_EQ(refused({.limits = {{"vip", {.max_concurrency = 0}}}}),
            "max_concurrency of \"vip\" in limits is 0; it must be at least 1");
  EXPECT_EQ(refused({.limits = {{"", {}}}}), "limits has an empty name");
  EXPECT_EQ(
      refused({.concurrency = 2, .limits = {{"vip", {.guaranteed = 3}}}}),
      "guaranteed of all in limits together is 3; concurrency is 2, and no more can be promised");
  EXPECT_EQ(refused({.batch = {.most = 0}}), "batch.most is 0; it must be at least 1");
  EXPECT_EQ(refused({.batch = {.most = -5}}), "batch.most is -5; it must be at least 1");
  EXPECT_EQ(refused({.batch = {.linger = -1ns}}), "batch.linger is -1 ns; it must be at least 0");
  EXPECT_EQ(refused({.retry = {.attempts = 0}}), "retry.attempts is 0; it must be at least 1");
  EXPECT_EQ(refused({.retry = {.first = -1ns}}), "retry.first is -1 ns; it must be at least 0");
  EXPECT_EQ(refused({.max_in_flight = 0}), "max_in_flight is 0; it must be at least 1");
  EXPECT_EQ(refused({.max_in_flight_bytes = 0}), "max_in_flight_bytes is 0; it must be at least 1");
  EXPECT_EQ(refused({.max_in_flight_per_key = -1}),
            "max_in_flight_per_key is -1; it must be at least 0");
  EXPECT_EQ(refused({.max_window = 0}), "max_window is 0; it must be at least 1");
  EXPECT_EQ(refused({.commit_interval = {}}), "commit_interval is 0 ns; it must be above 0");
  EXPECT_EQ(refused({.commit_every = 0}), "commit_every is 0; it must be at least 1");
  EXPECT_EQ(refused({.rate = RateLimit{}}),
            "rate.per_second is 0.000000; it must be above 0 and at most 9e9");
  EXPECT_NE(refused({.rate = RateLimit{.per_second = std::nan("")}}), "");
  EXPECT_EQ(refused({.rate = RateLimit{.per_second = 1, .burst = 0}}),
            "rate.burst is 0; it must be at least 1");
  EXPECT_EQ(refused({.key_rate = RateLimit{.per_second = -1}}),
            "key_rate.per_second is -1.000000; it must be above 0 and at most 9e9");
}

TEST(PipelineOptions, AtTheEndsOfTheirRangesHandleEveryRecord) {
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  const PipelineOptions least{.retry = {.attempts = 1, .first = {}, .ceiling = {}},
                              .max_in_flight = 1,
                              .max_in_flight_bytes = 1,
                              .max_in_flight_per_key = 0,
                              .max_window = 1,
                              .commit_interval = 1ns,
                              .commit_every = 1,
                              .shutdown_wait = {}};
  const PipelineOptions greatest{.key_concurrency = kUnlimited,
                                 .concurrency = kUnlimited,
                                 .retry = {.attempts = kUnlimited,
                                           .first = Duration::max(),
                                           .ceiling = Duration::max(),
                                           .attempt_timeout = Duration::max()},
                                 .max_in_flight = most,
                                 .max_in_flight_bytes = most,
                                 .max_in_flight_per_key = kUnlimited,
                                 .max_window = most,
                                 .commit_interval = Duration::max(),
                                 .commit_every = most,
                                 .shutdown_wait = Duration::max(),
                                 .rate = RateLimit{.per_second = 1e-12, .burst = kUnlimited}};
  for (const PipelineOptions& options : {least, greatest}) {
    SimScheduler sim;
    FakeLog log = numbered(20, 3);
    FakeSource source(log);
    int handled = 0;
    const auto handler = [&](const Record&) -> Task<void> {
      ++handled;
      co_return;
    };
    Pipeline pipeline(source, options, handler, sim);
    const Result<PipelineEnd> end = pipeline.run_until();
    ASSERT_TRUE(end.ok()) << end.error().message;
    EXPECT_EQ(end->why, PipelineEnd::kSourceEnded);
    EXPECT_EQ(handled, 20);
    EXPECT_EQ(log.committed[0].watermark, 20);
  }
}

TEST(Pipeline, RunsOnce) {
  SimScheduler sim;
  FakeLog log = keyless(3);
  FakeSource source(log);
  Pipeline pipeline(source, {}, [](const Record&) {}, sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  const Result<PipelineEnd> again = pipeline.run_until();
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace keyway
