// Rates.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "groups/group_shares_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

TEST_F(GroupShares, AGroupWithARateStartsNoFaster) {
  GroupLimits limits = wide();
  limits.rate = RateLimit{.per_second = 10, .burst = 3};
  make({.groups = {{"calls", limits}}, .default_group = wide()});
  submit("calls", 6);
  submit("other", 5);
  sim_.run_ready();
  EXPECT_EQ(began("calls"), 3) << "the burst";
  EXPECT_EQ(began("other"), 5) << "without a rate";
  times_.clear();
  sim_.run_until_idle();
  EXPECT_EQ(times_, (std::vector<Duration>{100ms, 200ms, 300ms}));
}

TEST_F(GroupShares, ATaskThatWaitsForTokensHoldsNoGlobalPermit) {
  GroupLimits limits = wide();
  limits.rate = RateLimit{.per_second = 1};
  make({.groups = {{"calls", limits}}, .global_max_in_flight = 1});
  submit("calls", 2);
  sim_.advance(10ms);
  submit("other", 1);
  sim_.run_ready();
  EXPECT_EQ(began_, (std::vector<std::string>{"calls", "other"}));
}

TEST_F(GroupShares, ATaskThatComesBackAfterAWaitNeedsNoTokenAgain) {
  GroupLimits limits{.max_concurrency = 1};
  limits.rate = RateLimit{.per_second = 1, .burst = 2};
  make({.groups = {{"g", limits}}});
  auto outer = executor_->submit("g", "outer", [&]() -> Task<int> {
    auto inner = executor_->submit("g", "inner", []() -> Task<int> {
      co_await sleep_for(1ms);
      co_return 42;
    });
    submit("g", 1);  // waits for a token when the inner one ends
    co_return (co_await inner).value();
  });
  sim_.advance(1ms);
  ASSERT_TRUE(outer.is_done()) << "though nobody may start now";
  EXPECT_EQ(began("g"), 0);
  sim_.advance(1s);
  EXPECT_EQ(began("g"), 1);
}

TEST_F(GroupShares, ShutdownDoesNotWaitForTokens) {
  GroupLimits limits;
  limits.rate = RateLimit{.per_second = 0.0001};
  make({.default_group = limits});
  submit("a", 3);
  submit("b", 3);
  sim_.advance(20ms);
  const TimePoint before = sim_.now();
  executor_.reset();
  EXPECT_EQ(sim_.now(), before);
  for (auto& handle : handles_) EXPECT_TRUE(handle.is_done());
}

TEST_F(GroupShares, ARateHoldsAlsoForAGroupThatWasIdleMeanwhile) {
  GroupLimits limits;
  limits.rate = RateLimit{.per_second = 1, .burst = 1};
  make({.default_group = limits});
  for (int i = 0; i < 3'000; ++i) submit("key-" + std::to_string(i), 1, 0ms);
  sim_.run_ready();
  for (int i = 0; i < 3'000; ++i) submit("key-" + std::to_string(i), 1, 0ms);
  began_.clear();
  sim_.run_ready();
  EXPECT_EQ(began_.size(), 0U) << "more lanes than are kept warm, and none has forgotten";
  sim_.advance(1s);
  EXPECT_EQ(began_.size(), 3'000U);
}

}  // namespace
}  // namespace keyway
