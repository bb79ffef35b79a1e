// A key with records in several partitions.
#include <chrono>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// The window of partition 0 is full of records that were set aside when partition 1 is read, and is filled again as long as
// that partition lasts.
TEST(SharedKey, RecordsThatAreSetAsideGoInTheOrderOfReadingWhateverTheirPartition) {
  constexpr int kRecords = 2'000;
  for (const PartitionId of_many : {0, 1}) {
    const PartitionId of_one = 1 - of_many;
    SimScheduler sim;
    FakeLog log;
    for (int i = 0; i < kRecords; ++i) log.partitions[of_many].push_back({"k", ""});
    log.partitions[of_one].push_back({"k", ""});
    FakeSource source(log);
    source.batch = 10;
    int handled = 0;
    int place = 0;
    std::map<PartitionId, Offset> next;
    Pipeline pipeline(
        source, {.max_in_flight_per_key = 5, .max_window = 100},
        [&](const Record& record) -> Task<void> {
          co_await sleep_for(1ms);
          EXPECT_EQ(record.offset, next[record.partition]++);
          ++handled;
          if (record.partition == of_one) place = handled;
        },
        sim);
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(handled, kRecords + 1);
    EXPECT_GT(place, 0);
    EXPECT_LT(place, 200) << "the other partition is " << of_many;
  }
}

}  // namespace
}  // namespace keyway
