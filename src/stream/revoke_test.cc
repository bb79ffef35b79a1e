// Partitions that are taken away while records of them run.
#include <chrono>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/call_after.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(Revoke, ThatTakesTooLongDropsWhatRunsAndItsLateEndChangesNothing) {
  SimScheduler sim;
  FakeLog log = numbered(3, 3);
  FakeSource source(log);
  source.ends = false;
  StopAfter stop(sim, 2min);
  int tries = 0;
  const auto handler = [&](const Record& record) -> Task<void> {
    if (record.offset != 1 || ++tries > 1) co_return;
    source.take_away(0, PartitionEvent::kRevoked);
    source.assign_later(0);
    co_await sleep_for(1min);  // longer than it is waited for; meanwhile the partition is back
    EXPECT_LE(log.committed[0].watermark, 1);
  };
  Pipeline pipeline(source, {.shutdown_wait = 5s}, handler, sim);
  ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
  // Its own key was busy until then; then it was handled again, and only that was committed.
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(log.committed[0].watermark, 3);
}

// All records have one key, so most of them are set aside when the partition goes.
TEST(Revoke, GivesBackTheBytesOfWhatWasSetAside) {
  SimScheduler sim;
  FakeLog log;
  for (int i = 0; i < 9; ++i) log.partitions[0].push_back({"k", std::string(1000, 'x')});
  FakeSource source(log);
  source.ends = false;
  StopAfter stop(sim, 1h);
  int revoked = 0;
  int handled = 0;
  const auto handler = [&](const Record& record) -> Task<void> {
    if (record.offset == 0 && ++revoked <= 3) {
      source.take_away(0, PartitionEvent::kLost);
      source.assign_later(0);
      co_await sleep_for(1s);
    } else {
      ++handled;
    }
  };
  Pipeline pipeline(source, {.max_in_flight_bytes = 12'000, .max_in_flight_per_key = 1}, handler,
                    sim);
  ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
  EXPECT_EQ(revoked, 4);
  EXPECT_EQ(handled, 9);
  EXPECT_EQ(log.committed[0].watermark, 9);
  EXPECT_EQ(pipeline.stats().in_flight_bytes, 0U);
}

// A source may assign a partition that it never took away: its records come again from where it was committed.
TEST(Revoke, IsImpliedWhenAPartitionIsAssignedAgain) {
  SimScheduler sim;
  FakeLog log;
  for (int i = 0; i < 6; ++i) log.partitions[0].push_back({"k", std::string(1, 'a' + i)});
  FakeSource source(log);
  source.ends = false;
  StopAfter stop(sim, 1h);
  std::string handled;
  const auto handler = [&](const Record& record) -> Task<void> {
    handled += record.value;
    if (handled.size() > 1) co_return;
    source.assign(0);
    co_await sleep_for(1s);
  };
  Pipeline pipeline(source, {.max_in_flight_per_key = 2}, handler, sim);
  ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
  EXPECT_EQ(handled, "aabcdef") << "what was queued or set aside before was handled twice";
  EXPECT_EQ(log.committed[0].watermark, 6);
  EXPECT_EQ(pipeline.stats().in_flight_bytes, 0U);
  EXPECT_EQ(pipeline.stats().read, pipeline.stats().done + pipeline.stats().dropped);
}

TEST(Revoke, ByLossCommitsNothing) {
  SimScheduler sim;
  FakeLog log = numbered(4, 4);
  FakeSource source(log);
  source.ends = false;
  StopAfter stop(sim, 1min);
  const auto handler = [&](const Record& record) {
    if (record.offset == 3) source.take_away(0, PartitionEvent::kLost);
  };
  Pipeline pipeline(source, {.commit_interval = 1h}, handler, sim);
  ASSERT_TRUE(pipeline.run_until(stop.token()).ok());
  EXPECT_EQ(log.committed[0].watermark, 0);
}

// Nothing else wakes the pipeline at that time: neither a commit nor the source.
TEST(Revoke, EndsWhenItsTimeIsOverAndReadingGoesOn) {
  SimScheduler sim;
  FakeLog log;
  log.partitions[0] = {{"a", "slow"}, {"b", "fast"}};
  log.partitions[1] = {{"c", "other"}};
  FakeSource source(log);
  source.ends = false;
  std::stop_source stop;
  std::optional<TimePoint> revoked;
  std::optional<TimePoint> read_again;
  const auto handler = [&](const Record& record) -> Task<void> {
    if (record.value == "slow") {
      co_await sleep_for(1ms);
      source.take_away(0, PartitionEvent::kRevoked);
      revoked = sim.now();
      co_await sleep_for(1min);  // longer than it is waited for
    } else if (record.value == "other") {
      co_await sleep_for(1s);  // until the pipeline waits for the slow one
      log.partitions[1].push_back({"c", "next"});
    } else if (record.value == "next") {
      read_again = sim.now();
      EXPECT_EQ(log.committed[0], (Progress{.watermark = 0, .done_above = {{1, 2}}}));
      stop.request_stop();
    }
  };
  Pipeline pipeline(source, {.commit_interval = 1h, .shutdown_wait = 5s}, handler, sim);
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
  ASSERT_TRUE(revoked && read_again);
  EXPECT_EQ(*read_again - *revoked, 5s);
}

// Counts polls after a revoke. The first one comes when the partition is given back.
struct RevokedSource final : FakeSource {
  using FakeSource::FakeSource;
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t most) override {
    if (is_told) ++polls_since;
    Result<Polled> polled = FakeSource::poll(records, events, most);
    for (const PartitionEvent& event : events) {
      is_told = is_told || event.kind == PartitionEvent::kRevoked;
    }
    return polled;
  }
  bool is_told = false;
  int polls_since = 0;
};

TEST(Revoke, ACommitThatFailedIsTriedAgainBeforeReadingGoesOn) {
  SimScheduler sim;
  FakeLog log = numbered(3, 3);
  log.partitions[1];
  RevokedSource source(log);
  source.ends = false;
  int failures = 0;
  source.on_commit = [&](std::span<const Progress>) -> Result<void> {
    EXPECT_EQ(source.polls_since, 0);
    if (++failures <= 2) return Error{ErrorCode::kIo, "broker is away", /*retryable=*/true};
    return {};
  };
  std::stop_source stop;
  const CallAfter revokes(sim, 100ms, [&] { source.take_away(0, PartitionEvent::kRevoked); });
  const CallAfter stops(sim, 1min, [&] { stop.request_stop(); });
  Pipeline pipeline(source, {.commit_interval = 2s}, [](const Record&) {}, sim);
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(failures, 3);
  EXPECT_EQ(log.committed[0].watermark, 3);
  EXPECT_GT(source.polls_since, 0);
}

TEST(Revoke, DoesNotWaitForACommitThatFailedOfAPartitionThatIsLost) {
  SimScheduler sim;
  FakeLog log = numbered(3, 3);
  log.partitions[1];
  RevokedSource source(log);
  source.ends = false;
  int commits = 0;
  source.on_commit = [&](std::span<const Progress>) -> Result<void> {
    ++commits;
    return Error{ErrorCode::kIo, "broker is away", /*retryable=*/true};
  };
  std::stop_source stop;
  // After the first commit has failed, and before it is tried again.
  const CallAfter loses(sim, 2500ms, [&] { source.take_away(0, PartitionEvent::kLost); });
  const CallAfter revokes(sim, 2600ms, [&] { source.take_away(1, PartitionEvent::kRevoked); });
  std::optional<int> polls_soon;
  const CallAfter looks(sim, 3s, [&] { polls_soon = source.polls_since; });
  const CallAfter stops(sim, 1min, [&] { stop.request_stop(); });
  Pipeline pipeline(source, {.commit_interval = 2s}, [](const Record&) {}, sim);
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(commits, 1);
  EXPECT_GT(polls_soon, 0);
}

TEST(Revoke, ACommitThatFailsUntilItsTimeIsOverIsGivenUp) {
  SimScheduler sim;
  FakeLog log = numbered(3, 3);
  log.partitions[1];
  RevokedSource source(log);
  source.ends = false;
  std::vector<Duration> tries;
  const TimePoint began = sim.now();
  source.on_commit = [&](std::span<const Progress>) -> Result<void> {
    EXPECT_EQ(source.polls_since, 0);
    tries.push_back(sim.now() - began);
    return Error{ErrorCode::kIo, "broker is away", /*retryable=*/true};
  };
  std::stop_source stop;
  const CallAfter revokes(sim, 1s, [&] { source.take_away(0, PartitionEvent::kRevoked); });
  const CallAfter stops(sim, 1min, [&] { stop.request_stop(); });
  Pipeline pipeline(
      source, {.commit_interval = 10s, .shutdown_wait = 15s}, [](const Record&) {}, sim);
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(tries, (std::vector<Duration>{1s, 11s, 16s}));
  EXPECT_EQ(log.committed[0].watermark, 0);
  EXPECT_GT(source.polls_since, 0);
}

// A record that runs, or a paused key, keeps the revoked partition 0 until shutdown_wait is over. Most records of partition
// 1 are set aside.
void expect_others_go_on(bool by_pause) {
  SimScheduler sim;
  FakeLog log;
  log.partitions[0].push_back({"stuck", "stuck"});
  for (int i = 0; i < 100; ++i) log.partitions[1].push_back({"k", ""});
  RevokedSource source(log);
  source.ends = false;
  std::stop_source stop;
  int handled = 0;
  int handled_meanwhile = 0;
  Pipeline pipeline(
      source, {.max_in_flight_per_key = 1, .shutdown_wait = 30s},
      [&](const Record& record) -> Task<void> {
        co_await sleep_for(record.key == "stuck" ? 30min : 10ms);
        ++handled;
      },
      sim);
  if (by_pause) pipeline.pause_key("stuck");
  const CallAfter revokes(sim, 5ms, [&] { source.take_away(0, PartitionEvent::kRevoked); });
  const CallAfter looks(sim, 10s, [&] {
    handled_meanwhile = handled;
    EXPECT_TRUE(source.is_told);
    EXPECT_EQ(source.polls_since, 0);
  });
  const CallAfter stops(sim, 40s, [&] { stop.request_stop(); });
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(handled_meanwhile, 100);
  EXPECT_GT(source.polls_since, 0);
}

TEST(Revoke, RecordsOfOtherPartitionsThatWereReadGoOnMeanwhile) { expect_others_go_on(false); }
TEST(Revoke, RecordsOfOtherPartitionsGoOnWhileAPausedKeyKeepsIt) { expect_others_go_on(true); }

}  // namespace
}  // namespace keyway
