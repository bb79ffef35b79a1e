// Limits and rates of keys: which orders have them, and which records.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

std::string message_of(const PipelineOptions& options) {
  const Result<void> valid = options.validate();
  return valid.ok() ? "" : valid.error().message;
}

TEST(PipelineLimits, OfKeysAreRefusedWithoutOrderByKey) {
  for (const Order order : {Order::kPartition, Order::kNone}) {
    const std::string is = order == Order::kNone ? "order is kNone" : "order is kPartition";
    EXPECT_EQ(message_of({.order = order, .limits = {{"vip", {.max_concurrency = 2}}}}),
              "limits names keys, but " + is +
                  ": no limit of a key is held; set order to kKey, or set by_group, and limits "
                  "names groups");
    EXPECT_EQ(message_of({.order = order, .key_rate = RateLimit{.per_second = 1}}),
              "key_rate is set, but " + is +
                  ": no rate of a key is held; set order to kKey, or use rate for all records "
                  "together");
    EXPECT_EQ(message_of({.order = order, .rate = RateLimit{.per_second = 1}}), "");
    EXPECT_EQ(
        message_of({.order = order, .by_group = true, .limits = {{"vip", {.max_concurrency = 2}}}}),
        "");
  }
  EXPECT_EQ(message_of({.limits = {{"vip", {.max_concurrency = 2}}},
                        .key_rate = RateLimit{.per_second = 1}}),
            "");
}

TEST(PipelineLimits, TheRateOfKeysDoesNotHoldBackRecordsWithoutAKey) {
  for (const bool by_group : {false, true}) {
    SimScheduler sim;
    FakeLog log = keyless(20);
    log.partitions[1] = {{"a", "x"}, {"a", "x"}, {"b", "x"}};
    FakeSource source(log);
    std::map<std::string, Duration> last;
    const TimePoint began = sim.now();
    Pipeline pipeline(
        source,
        {.by_group = by_group, .group_concurrency = 5, .key_rate = RateLimit{.per_second = 1}},
        [&](const Record& record) {
          last[std::string(record.key.value_or("none"))] = sim.now() - began;
        },
        sim);
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_LT(last["none"], 1ms);
    EXPECT_LT(last["b"], 1ms);
    EXPECT_GE(last["a"], 1s);
  }
}

// Batches of distinct keys have two executors, too, but no groups.
TEST(PipelineLimits, OfKeysAreHeldInBatchesOfDistinctKeys) {
  SimScheduler sim;
  FakeLog log;
  for (int i = 0; i < 3; ++i) {
    for (const char* key : {"slow", "fast"}) log.partitions[0].push_back({key, "x"});
  }
  FakeSource source(log);
  std::map<std::string, Duration> last;
  const TimePoint began = sim.now();
  Pipeline pipeline(
      source,
      {.limits = {{"slow", {.rate = RateLimit{.per_second = 1}}}}, .batch = {.linger = 1ms}},
      [&](const Batch& batch) {
        for (const Record& record : batch) last[std::string(*record.key)] = sim.now() - began;
      },
      sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_LT(last["fast"], 1s);
  EXPECT_GE(last["slow"], 2s);
}

}  // namespace
}  // namespace keyway
