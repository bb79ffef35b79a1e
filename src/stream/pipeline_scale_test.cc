// A record costs the same however many others wait for their group or are set aside, and however many partitions there are.
#include <array>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/call_after.h"
#include "stream/pipeline_fixture.h"
#include "support/scale.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

// For `count` records, all in flight, each with a key of its own: two of a group at a time.
double seconds(int count) {
  testing::SimScheduler sim;
  FakeLog log = numbered(count, count);
  FakeSource source(log);
  int handled = 0;
  PipelineOptions options;
  options.concurrency = count;
  options.by_group = true;
  options.group_concurrency = 2;
  options.classify = [](Record& record) -> Result<bool> {
    static const std::array<std::string, 3> groups = {"left", "middle", "right"};
    record.group = groups[static_cast<std::size_t>(number(record)) % groups.size()];
    return true;
  };
  const auto handle = [&](const Record&) -> Task<void> {
    co_await sleep_for(1ms);
    ++handled;
  };
  const double began = cpu_seconds();
  Pipeline pipeline(source, options, handle, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  const double took = cpu_seconds() - began;
  EXPECT_EQ(handled, count);
  return took;
}

TEST(PipelineScale, TimePerRecordThatWaitsForItsGroupDoesNotGrowWithTheirNumber) {
  expect_cost_stays(seconds, 400, 8'000);
}

// For `count` records of one key, one after the other, while records of as many other keys are set aside.
double seconds_beside_full_keys(int count) {
  testing::SimScheduler sim;
  FakeLog log;
  std::vector<FakeLog::Line>& lines = log.partitions[0];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < count; ++i) lines.push_back({"full " + std::to_string(i), "full"});
  }
  for (int i = 0; i < count; ++i) lines.push_back({"hot", "hot"});
  FakeSource source(log);
  int handled = 0;
  std::stop_source stop;
  PipelineOptions options;
  options.concurrency = 2 * count;
  options.max_in_flight = 5 * static_cast<std::size_t>(count);
  options.max_in_flight_per_key = 1;
  options.commit_interval = 24h;
  double began = 0;
  const auto handle = [&](const Record& record) -> Task<void> {
    if (record.value == "full") co_await sleep_for(12h);  // until the end
    co_await sleep_for(1ms);
    if (++handled == 2) began = cpu_seconds();  // all other records are read
    if (handled == count) stop.request_stop();
  };
  Pipeline pipeline(source, options, handle, sim);
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  const double took = cpu_seconds() - began;
  EXPECT_EQ(handled, count);
  return took;
}

TEST(PipelineScale, TimePerRecordDoesNotGrowWithTheNumberOfKeysThatAreSetAside) {
  expect_cost_stays(seconds_beside_full_keys, 100, 2'000);
}

// A few records at a time, all of partition 0. Unlike FakeSource, it takes no time for the other partitions.
class OneOfManyPartitions final : public Source {
 public:
  OneOfManyPartitions(int partitions, int records) : partitions_(partitions), records_(records) {}
  std::string name() const override { return "many"; }
  Result<void> open(std::function<void()>) override { return {}; }
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t) override {
    if (next_ == 0) {
      for (int i = 0; i < partitions_; ++i) {
        events.push_back({PartitionEvent::kAssigned, {.partition = i}});
      }
    }
    for (int i = 0; i < 4 && next_ < records_; ++i, ++next_) {
      records.push_back({.offset = next_, .end = next_ + 1, .key = "k", .value = "v"});
    }
    return Polled{next_ < records_ ? Polled::kIdle : Polled::kEnd, 1us};
  }
  Result<void> commit(std::span<const Progress>) override { return {}; }
  void pause(PartitionId) override {}
  void resume(PartitionId) override {}

 private:
  const int partitions_;
  const Offset records_;
  Offset next_ = 0;
};

// For `count` records of one partition, beside as many other partitions.
double seconds_beside_partitions(int count) {
  testing::SimScheduler sim;
  OneOfManyPartitions source(count, count);
  int handled = 0;
  double began = 0;
  double took = 0;
  const auto handle = [&](const Record&) -> Task<void> {
    co_await sleep_for(1us);
    if (++handled == 2) began = cpu_seconds();
    if (handled == count) took = cpu_seconds() - began;
  };
  Pipeline pipeline(source, {.commit_interval = 24h}, handle, sim);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(handled, count);
  return took;
}

TEST(PipelineScale, TimePerRecordDoesNotGrowWithTheNumberOfPartitions) {
  expect_cost_stays(seconds_beside_partitions, 200, 8'000);
}

// Measures the time from the poll that takes partitions away to the next poll.
struct MeasuresLoss final : FakeSource {
  using FakeSource::FakeSource;
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t most) override {
    if (began > 0 && took == 0) took = cpu_seconds() - began;
    Result<Polled> polled = FakeSource::poll(records, events, most);
    if (!events.empty() && events.front().kind == PartitionEvent::kLost) began = cpu_seconds();
    return polled;
  }
  double began = 0;
  double took = 0;
};

// For the loss of `count` partitions at once. Most of their records are set aside.
double seconds_of_loss(int count) {
  testing::SimScheduler sim;
  FakeLog log;
  for (PartitionId id = 0; id < count; ++id) log.partitions[id].assign(4, {"hot", "v"});
  MeasuresLoss source(log);
  source.ends = false;
  const CallAfter loses(sim, 1s, [&] {
    for (PartitionId id = 0; id < count; ++id) source.take_away(id, PartitionEvent::kLost);
  });
  std::stop_source stop;
  const CallAfter stops(sim, 2s, [&] { stop.request_stop(); });
  Pipeline pipeline(
      source, {.max_in_flight_per_key = 1},
      [](const Record&) -> Task<void> { co_await sleep_for(3s); }, sim);
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(pipeline.stats().dropped, 4U * static_cast<unsigned>(count) - 1);
  return source.took;
}

TEST(PipelineScale, TimePerLostPartitionDoesNotGrowWithTheirNumber) {
  expect_cost_stays(seconds_of_loss, 100, 2'000);
}

}  // namespace
}  // namespace keyway
