#include "runtime/sampled_times.h"

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// How many of `count` events are measured, one after each `interval`.
std::uint64_t measured(SampledTimes& times, SimScheduler& sim, int count, Duration interval) {
  const std::uint64_t before = times.summary().count;
  for (int i = 0; i < count; ++i) {
    sim.advance(interval);
    const TimePoint began = times.begin();
    if (began != TimePoint()) times.end(began);
  }
  return times.summary().count - before;
}

constexpr int kFlood = 50'000;

TEST(SampledTimes, InAFloodFewAreMeasured) {
  SimScheduler sim;
  SampledTimes times(&sim);
  EXPECT_EQ(measured(times, sim, 1'000, 1ms), 1'000U);
  EXPECT_LT(measured(times, sim, kFlood, 1us), 2'048U + kFlood / SampledTimes::kEvery);
}

TEST(SampledTimes, AfterAFloodEachIsMeasuredAgain) {
  SimScheduler sim;
  SampledTimes times(&sim);
  (void)measured(times, sim, kFlood, 1us);
  EXPECT_GE(measured(times, sim, 100, 1s), 100 - (SampledTimes::kEvery - 1));
  EXPECT_EQ(measured(times, sim, 1'000, 1s), 1'000U);
}

}  // namespace
}  // namespace keyway
