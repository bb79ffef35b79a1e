// A run that is stopped ends when nothing runs any more.
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

// Records that wait for a token run no more: nothing is waited for.
template <class Handler>
void expect_stops_at_once(const char* name, PipelineOptions options, Handler handler) {
  SimScheduler sim;
  FakeLog log = numbered(10, 1);
  FakeSource source(log);
  source.ends = false;
  std::stop_source stop;
  const CallAfter stops(sim, 5s, [&] { stop.request_stop(); });
  const TimePoint began = sim.now();
  Pipeline pipeline(source, std::move(options), handler, sim);
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok()) << name;
  EXPECT_EQ(sim.now() - began, 5s) << name;
  const PipelineStats stats = pipeline.stats();
  EXPECT_EQ(stats.done, 1U) << name;
  EXPECT_EQ(stats.dropped, 9U) << name;
  EXPECT_EQ(stats.in_flight, 0U) << name;
}

TEST(Stop, DoesNotWaitForTokensOfRates) {
  const RateLimit slow{.per_second = 1.0 / 3600};
  const auto handler = [](const Record&) {};
  expect_stops_at_once("of all records", {.rate = slow}, handler);
  expect_stops_at_once("of each key", {.key_rate = slow}, handler);
  expect_stops_at_once("of a key by name", {.limits = {{"key 0", {.rate = slow}}}}, handler);
  expect_stops_at_once("of a group", {.by_group = true, .limits = {{"key 0", {.rate = slow}}}},
                       handler);
  expect_stops_at_once("of each key, in batches",
                       {.batch = {.of = BatchOptions::kOneKey, .most = 1}, .key_rate = slow},
                       [](const Batch&) {});
  expect_stops_at_once("of each key, in batches of distinct keys",
                       {.batch = {.most = 1}, .key_rate = slow}, [](const Batch&) {});
}

// Records that wait for others of their batch leave at once.
TEST(Stop, DoesNotWaitForBatchesToBecomeFull) {
  SimScheduler sim;
  FakeLog log = numbered(10, 10);
  FakeSource source(log);
  source.ends = false;
  std::stop_source stop;
  const CallAfter stops(sim, 5s, [&] { stop.request_stop(); });
  const TimePoint began = sim.now();
  int handled = 0;
  Pipeline pipeline(
      source, {.batch = {.most = 100, .linger = 1h}, .shutdown_wait = 2h},
      [&](const Batch&) { ++handled; }, sim);
  ASSERT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(sim.now() - began, 5s);
  EXPECT_EQ(handled, 0);
  EXPECT_EQ(pipeline.stats().dropped, 10U);
}

}  // namespace
}  // namespace keyway
