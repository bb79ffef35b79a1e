// A record that waits for its group costs the same however many others wait.
#include <array>
#include <ctime>
#include <string>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

// Of this thread, on which the simulation runs: other processes do not count.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Seconds for each of `count` records, all in flight, each with a key of its own: two of a group at a time.
double seconds_per_record(int count) {
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
  return took / count;
}

TEST(PipelineScale, TimePerRecordThatWaitsForItsGroupDoesNotGrowWithTheirNumber) {
  seconds_per_record(500);  // warms up
  const double few = seconds_per_record(500);
  // Sixteen times as many would take sixteen times as long each if a wait were linear.
  EXPECT_LT(seconds_per_record(8'000), 5 * few);
}

}  // namespace
}  // namespace keyway
