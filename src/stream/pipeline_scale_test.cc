// A record that waits for its group costs the same however many others wait.
#include <array>
#include <string>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
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

}  // namespace
}  // namespace keyway
