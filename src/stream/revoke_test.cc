// Partitions that are taken away while records of them run.
#include <chrono>
#include <optional>
#include <stop_token>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

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

}  // namespace
}  // namespace keyway
