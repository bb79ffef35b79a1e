// Limits that are found by measuring, in an executor.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "groups/group_shares_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// A server that does eight things at once without making them wait, in 10 ms each.
TEST_F(GroupShares, AnAdaptiveLimitFindsWhatIsServedWithoutWaiting) {
  make({.groups = {{"db", {.adaptive = AdaptiveLimits{.floor = 1, .ceiling = 64}}}}});
  std::uint64_t inside = 0;
  std::vector<std::uint64_t> most;
  for (int i = 0; i < 20'000; ++i) {
    handles_.push_back(executor_->submit("db", "t", [&]() -> Task<void> {
      ++inside;
      most.push_back(inside);
      co_await sleep_for(10ms * std::max<std::uint64_t>(8, inside) / 8);
      --inside;
    }));
  }
  sim_.run_until_idle();
  const std::uint64_t peak = *std::max_element(most.end() - 5'000, most.end());
  EXPECT_GE(peak, 7U);
  EXPECT_LE(peak, 12U);
  EXPECT_EQ(executor_->stats().succeeded, 20'000U);
}

// With 64 at once from the beginning they would take 0.94 s.
TEST_F(GroupShares, AnAdaptiveLimitGrowsQuicklyWhereNothingWaits) {
  for (const Duration differ : {0us, 200us}) {
    make({.groups = {{"db", {.adaptive = AdaptiveLimits{.floor = 2, .ceiling = 64}}}}});
    std::mt19937_64 random(1);
    TimePoint ended;
    const TimePoint began = sim_.now();
    for (int i = 0; i < 3'000; ++i) {
      const Duration time = 20ms + differ * static_cast<int>(random() % 100) / 100;
      handles_.push_back(executor_->submit("db", "t", [&, time]() -> Task<void> {
        co_await sleep_for(time);
        ended = sim_.now();
      }));
    }
    sim_.run_until_idle();
    EXPECT_LE(ended - began, 1350ms) << "times that differ by " << differ.count() << " ns";
  }
}

TEST_F(GroupShares, AnAdaptiveLimitStaysBelowMaxInFlight) {
  make({.default_group = {.max_in_flight = 3,
                          .adaptive = AdaptiveLimits{.floor = 2, .ceiling = 64}}});
  submit("db", 2'000);
  std::uint64_t most = 0;
  while (sim_.run_one()) most = std::max(most, running("db"));
  EXPECT_EQ(most, 3U);
}

TEST_F(GroupShares, AnAdaptiveLimitIsKeptWhenAnotherLimitIsSet) {
  make({.groups = {{"db", {.adaptive = AdaptiveLimits{.floor = 1, .ceiling = 32}}}}});
  submit("db", 600, 2ms);
  sim_.run_until_idle();
  const std::uint64_t learnt = executor_->explain("db").limit;
  ASSERT_GT(learnt, 4U);
  submit("db", 100);
  sim_.run_ready();
  EXPECT_TRUE(executor_->set_limits("db", {.queue_threshold = 1'000}).ok());
  EXPECT_EQ(executor_->explain("db").limit, learnt);
}

TEST_F(GroupShares, AnAdaptiveLimitLeavesTheQueueThresholdAsItIs) {
  make({.groups = {
            {"db",
             {.queue_threshold = 50, .adaptive = AdaptiveLimits{.floor = 1, .ceiling = 32}}}}});
  for (int wave = 0; wave < 20; ++wave) {
    submit("db", 40, 2ms);
    sim_.run_until_idle();
  }
  const std::uint64_t learnt = executor_->explain("db").limit;
  ASSERT_GT(learnt, 4U);
  std::uint64_t taken = 0;
  for (int i = 0; i < 200; ++i) taken += executor_->post("db", [] {}).ok() ? 1 : 0;
  EXPECT_LE(taken, 50 + learnt);
}

TEST_F(GroupShares, WhatIsGivenInThePolicyDoesNotChangeWhileItRuns) {
  make({.groups = {{"db", {.adaptive = AdaptiveLimits{}}}}});
  EXPECT_FALSE(executor_->set_limit("db", 5).ok());
  EXPECT_FALSE(executor_->set_limits("x", {.weight = 2}).ok());
}

TEST_F(GroupShares, AnAdaptiveLimitOutlivesAnEvictionHoweverTheNextTaskIsSubmitted) {
  std::uint64_t limits[2] = {};
  for (const int priority : {0, 1}) {
    SimScheduler sim;
    GroupExecutor executor(
        {.groups = {{"db", {.adaptive = AdaptiveLimits{.floor = 1, .ceiling = 32}}}}}, sim);
    const auto nap = []() -> Task<void> { co_await sleep_for(2ms); };
    for (int i = 0; i < 600; ++i) ASSERT_TRUE(executor.post("db", nap).ok());
    sim.run_until_idle();
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(executor.post("db", nap).ok());
    sim.run_ready();
    executor.evict_group("db");
    ASSERT_TRUE(executor.post("db", {.priority = priority}, nap).ok());
    limits[priority] = executor.explain("db").limit;
    sim.run_until_idle();
  }
  EXPECT_EQ(limits[0], limits[1]);
  EXPECT_GT(limits[0], 1U);
}

}  // namespace
}  // namespace keyway
