// Keys that cannot name their group in the executor: an empty one, a long one, and one that begins as Keyway's own groups
// do.
#include <chrono>
#include <string>
#include <utility>
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

const std::vector<std::string> kKeys = {"plain", "", "\x01odd", std::string(5'000, 'k')};

FakeLog three_of(const std::string& key) {
  FakeLog log;
  for (int i = 0; i < 3; ++i) log.partitions[0].push_back({key, std::to_string(i)});
  return log;
}

TEST(KeyNames, AnyKeyCanBePausedAndResumed) {
  for (const std::string& key : kKeys) {
    SimScheduler sim;
    FakeLog log = three_of(key);
    log.partitions[0].push_back({"other", "other"});
    FakeSource source(log);
    int handled = 0;
    Pipeline pipeline(source, {.max_in_flight_per_key = 1}, [&](const Record&) { ++handled; }, sim);
    pipeline.pause_key(key);
    const CallAfter resumes(sim, 5s, [&] {
      EXPECT_EQ(handled, 1) << "paused, with a key of " << key.size() << " bytes";
      pipeline.resume_key(key);
    });
    const TimePoint began = sim.now();
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(handled, 4);
    EXPECT_LT(sim.now() - began, 6s);
  }
}

TEST(KeyNames, AnyKeyCanBeExplained) {
  for (const std::string& key : kKeys) {
    SimScheduler sim;
    FakeLog log = three_of(key);
    FakeSource source(log);
    std::uint64_t waiting = 0;
    Pipeline pipeline(source, {}, [](const Record&) -> Task<void> { co_await sleep_for(1s); }, sim);
    const CallAfter explains(sim, 500ms, [&] { waiting = pipeline.explain(key).waiting; });
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(waiting, 2U) << "with a key of " << key.size() << " bytes";
  }
}

TEST(KeyNames, AnyKeyCanHaveLimits) {
  for (const std::string& key : kKeys) {
    if (key.empty()) continue;  // validate() refuses limits without a name
    SimScheduler sim;
    FakeLog log = three_of(key);
    FakeSource source(log);
    PipelineOptions options;
    options.key_concurrency = 1;
    options.limits[key] = {.max_concurrency = 3};
    Pipeline pipeline(
        source, std::move(options), [](const Record&) -> Task<void> { co_await sleep_for(1s); },
        sim);
    const TimePoint began = sim.now();
    ASSERT_TRUE(pipeline.run_until().ok());
    EXPECT_EQ(sim.now() - began, 1s) << "with a key of " << key.size() << " bytes";
  }
}

// Without order, all records have one group. Explaining a key shows that group; pausing a key does not pause it.
TEST(KeyNames, WithoutOrderAKeyHasNoLaneOfItsOwn) {
  SimScheduler sim;
  FakeLog log = numbered(6, 2);
  FakeSource source(log);
  std::uint64_t waiting = 0;
  Pipeline pipeline(
      source, {.order = Order::kNone, .concurrency = 2},
      [](const Record&) -> Task<void> { co_await sleep_for(1s); }, sim);
  pipeline.pause_key("key 0");
  const CallAfter explains(sim, 500ms, [&] { waiting = pipeline.explain("key 0").waiting; });
  const TimePoint began = sim.now();
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(waiting, 4U);
  EXPECT_EQ(sim.now() - began, 3s);
}

// With `by_group`, records without a group have one of their own.
TEST(KeyNames, TheEmptyGroupCanBeExplained) {
  SimScheduler sim;
  FakeLog log = keyless(4);
  FakeSource source(log);
  std::uint64_t waiting = 0;
  Pipeline pipeline(
      source, {.concurrency = 1, .by_group = true},
      [](const Record&) -> Task<void> { co_await sleep_for(1s); }, sim);
  const CallAfter explains(sim, 500ms, [&] { waiting = pipeline.explain_group("").waiting; });
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(waiting, 3U);
}

}  // namespace
}  // namespace keyway
