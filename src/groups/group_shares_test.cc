// Weights and guarantees.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "groups/group_shares_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

TEST_F(GroupShares, TakeTurnsUnlessTheOldestIsToGoFirst) {
  for (const bool oldest_first : {false, true}) {
    began_.clear();
    make({.default_group = {.max_concurrency = 1},
          .global_max_in_flight = 1,
          .oldest_first = oldest_first});
    submit("first", 3);
    sim_.advance(1ms);
    submit("second", 2);
    sim_.advance(1ms);
    submit("third", 1);
    sim_.run_until_idle();
    using Order = std::vector<std::string>;
    const Order turns = {"first", "second", "third", "first", "second", "first"};
    const Order by_age = {"first", "second", "first", "second", "first", "third"};
    EXPECT_EQ(began_, oldest_first ? by_age : turns);
  }
}

TEST_F(GroupShares, OfTheGlobalLimitEachGroupGetsAsMuchAsItsWeightSays) {
  GroupLimits heavy = wide();
  heavy.weight = 3;
  make({.groups = {{"heavy", heavy}}, .default_group = wide(), .global_max_in_flight = 4});
  submit("light", 200);
  submit("heavy", 400);
  submit("other", 200);
  sim_.advance(1s);  // 4 * 100 begin
  EXPECT_NEAR(began("heavy"), 240, 8);
  EXPECT_NEAR(began("light"), 80, 8);
  EXPECT_NEAR(began("other"), 80, 8);
}

// The permits of a burst are free while the lanes' turns run one after another.
TEST_F(GroupShares, WeightsHoldForTasksThatEndInBursts) {
  struct Case {
    int limit;
    std::vector<int> weights;
  };
  const std::vector<Case> cases = {{16, {1, 3}}, {16, {1, 2, 5}}, {9, {1, 8}}, {18, {8, 1}},
                                   {16, {1, 8}}, {7, {2, 3, 1}},  {1, {1, 3}}};
  for (const Case& sizes : cases) {
    began_.clear();
    GroupPolicy policy{.global_max_in_flight = sizes.limit};
    int all_weights = 0;
    for (const int weight : sizes.weights) {
      GroupLimits limits = wide();
      limits.weight = weight;
      policy.groups["group-" + std::to_string(weight)] = limits;
      all_weights += weight;
    }
    make(std::move(policy));
    constexpr int kBursts = 50;
    const int begin = kBursts * sizes.limit;
    for (const int weight : sizes.weights) {
      submit_for_bursts("group-" + std::to_string(weight), begin);
    }
    for (int burst = 1; burst < kBursts; ++burst) {
      sim_.run_ready();
      end_burst();
    }
    sim_.run_ready();
    EXPECT_EQ(static_cast<int>(began_.size()), begin);
    for (const int weight : sizes.weights) {
      EXPECT_NEAR(began("group-" + std::to_string(weight)), begin * weight / all_weights, 3)
          << "weight " << weight << " under a limit of " << sizes.limit;
    }
    end_all();
  }
}

// Each of the lanes reaches its own limit in each burst, and has no turn at the gate until its tasks end.
TEST_F(GroupShares, AWeightHoldsForAGroupAtItsOwnLimit) {
  make({.groups = {{"heavy", {.max_concurrency = 2, .weight = 3}}},
        .default_group = {.max_concurrency = 4},
        .global_max_in_flight = 4});
  for (const char* group : {"light", "heavy", "other"}) submit_for_bursts(group, 400);
  for (int burst = 0; burst < 50; ++burst) {
    sim_.run_ready();
    end_burst();
  }
  EXPECT_NEAR(began("heavy"), 100, 3) << "a share of 2.4, but a limit of 2";
  EXPECT_NEAR(began("light"), 50, 3);
  EXPECT_NEAR(began("other"), 50, 3);
  end_all();

  began_.clear();
  make({.groups = {{"heavy", {.max_concurrency = 1, .weight = 3}}},
        .default_group = {.max_concurrency = 1},
        .global_max_in_flight = 1});
  for (const char* group : {"light", "heavy", "other"}) submit(group, 100);
  sim_.advance(495ms);
  EXPECT_NEAR(began("heavy"), 30, 2);
  EXPECT_NEAR(began("light"), 10, 2);
  EXPECT_NEAR(began("other"), 10, 2);
  sim_.run_until_idle();
}

// With a limit of one, the turn of one lane is in the ready queue while the tasks of the other one run.
TEST_F(GroupShares, AWeightHoldsForTasksThatEndAtOnce) {
  struct Case {
    int weight;
    int limit;
    int global_limit;
  };
  for (const auto [weight, limit, global_limit] :
       {Case{3, 1, 1}, Case{9, 1, 1}, Case{3, 2, 1}, Case{3, 2, 2}, Case{3, 100, 2}}) {
    SCOPED_TRACE(std::to_string(weight) + " " + std::to_string(limit) + " " +
                 std::to_string(global_limit));
    began_.clear();
    make({.groups = {{"heavy", {.max_concurrency = limit, .weight = weight}}},
          .default_group = {.max_concurrency = limit},
          .global_max_in_flight = global_limit});
    executor_->pause();
    for (int i = 0; i < 400; ++i) {
      for (const char* group : {"heavy", "light"}) {
        EXPECT_TRUE(executor_->post(group, [this, group] { began_.push_back(group); }).ok());
      }
    }
    executor_->resume();
    while (began_.size() < 400) ASSERT_TRUE(sim_.run_one());
    EXPECT_NEAR(began("heavy"), 400 * weight / (weight + 1), 20);
    sim_.run_until_idle();
  }
}

TEST_F(GroupShares, AGuaranteeHoldsForTasksThatEndInBursts) {
  GroupLimits vip = wide();
  vip.guaranteed = 10;
  make({.groups = {{"vip", vip}}, .default_group = wide(), .global_max_in_flight = 16});
  for (const char* group : {"bulk", "vip", "other"}) submit_for_bursts(group, 500);
  for (int burst = 0; burst < 20; ++burst) {
    sim_.run_ready();
    EXPECT_GE(running("vip"), 10U);
    EXPECT_EQ(running("vip") + running("bulk") + running("other"), 16U);
    EXPECT_NEAR(began("bulk"), began("other"), 1);
    end_burst();
  }
  end_all();
}

TEST_F(GroupShares, AGuaranteeDoesNotDelayGroupsThatComeLater) {
  GroupLimits vip = wide();
  vip.guaranteed = 12;
  GroupLimits narrow{.max_concurrency = 2};
  make({.groups = {{"vip", vip}, {"narrow", narrow}},
        .default_group = wide(),
        .global_max_in_flight = 16});
  const auto burst = [&] {
    sim_.run_ready();
    end_burst();
  };
  for (const char* group : {"vip", "old", "narrow"}) submit_for_bursts(group, 1'000);
  for (int i = 0; i < 20; ++i) burst();
  submit_for_bursts("new", 1'000);
  began_.clear();
  for (int i = 0; i < 20; ++i) burst();
  sim_.run_ready();
  EXPECT_EQ(began("vip"), 21 * 12);
  EXPECT_NEAR(began("old"), began("new"), 2);
  EXPECT_NEAR(began("narrow"), began("old"), 7);
  end_all();
}

// A lane that stands in line behind another one must be served when that one does not come.
TEST_F(GroupShares, NoPermitStaysFreeWhenAHeavierGroupHasNoMoreTasks) {
  for (const int limit_of_heavy : {1000, 5}) {
    began_.clear();
    make({.groups = {{"heavy", {.max_concurrency = limit_of_heavy, .weight = 100}}},
          .default_group = wide(),
          .global_max_in_flight = 16});
    submit_for_bursts("light", 200);
    submit_for_bursts("heavy", 7);
    for (int burst = 0; burst < 10; ++burst) {
      sim_.run_ready();
      EXPECT_EQ(running("light") + running("heavy"), 16U);
      end_burst();
    }
    EXPECT_EQ(began("heavy"), 7);
    end_all();
  }
}

TEST_F(GroupShares, NoPermitStaysFreeWhenAHeavierGroupWaitsForTokens) {
  GroupLimits heavy{.max_concurrency = 1000, .weight = 100};
  heavy.rate = RateLimit{.per_second = 100, .burst = 3};
  make({.groups = {{"heavy", heavy}}, .default_group = wide(), .global_max_in_flight = 16});
  submit_for_bursts("light", 400);
  submit_for_bursts("heavy", 100);
  for (int burst = 0; burst < 20; ++burst) {
    sim_.run_ready();
    EXPECT_EQ(running("light") + running("heavy"), 16U);
    end_burst();
    sim_.advance(10ms);
  }
  EXPECT_NEAR(began("heavy"), 22, 2);
  end_all();
}

// In each step after a burst the turn of the heavier group may be on its way.
TEST_F(GroupShares, NoPermitStaysFreeWhateverHappensToAHeavierGroup) {
  enum class What { kPause, kPauseAll, kCancel, kShutDown, kEvict, kLimit, kGlobalLimit };
  for (const What what : {What::kPause, What::kPauseAll, What::kCancel, What::kShutDown,
                          What::kEvict, What::kLimit, What::kGlobalLimit}) {
    for (int steps = 0; steps < 60; ++steps) {
      handles_.clear();
      make({.groups = {{"heavy", {.max_concurrency = 1000, .weight = 5}}},
            .default_group = wide(),
            .global_max_in_flight = 16});
      for (const char* group : {"heavy", "light", "other"}) submit_for_bursts(group, 60);
      sim_.run_ready();
      end_burst();
      for (int step = 0; step < steps; ++step) sim_.run_one();
      std::uint64_t limit = 16;
      switch (what) {
        case What::kPause:
          executor_->pause_group("heavy");
          break;
        case What::kPauseAll:
          executor_->pause();
          sim_.run_ready();
          executor_->resume();
          break;
        case What::kCancel:
          for (std::size_t i = 0; i < 60; ++i) handles_[i].cancel();
          break;
        case What::kShutDown:
          executor_->shutdown_group("heavy");
          break;
        case What::kEvict:
          executor_->evict_group("heavy");
          break;
        case What::kLimit:
          ASSERT_TRUE(executor_->set_limit("heavy", 1).ok());
          break;
        case What::kGlobalLimit:
          limit = 20;
          ASSERT_TRUE(executor_->set_global_limit(20).ok());
      }
      sim_.run_ready();
      EXPECT_EQ(executor_->stats().running, limit)
          << "case " << static_cast<int>(what) << " after " << steps << " steps";
      executor_->resume_group("heavy");
      end_all();
    }
  }
}

TEST_F(GroupShares, AGroupThatWasAwayDoesNotCatchUp) {
  make({.default_group = {.max_concurrency = 1000, .weight = 1}, .global_max_in_flight = 1});
  submit("a", 200);
  sim_.advance(500ms);
  submit("b", 200);
  began_.clear();
  sim_.advance(500ms);
  EXPECT_NEAR(began("a"), began("b"), 2);
}

TEST_F(GroupShares, WithoutAGlobalLimitAWeightMakesTurnsLonger) {
  make({.groups = {{"heavy", {.weight = 3}}}});
  const auto submit_quick = [&](const char* group) {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(executor_->post(group, [this, group] { began_.push_back(group); }).ok());
    }
  };
  submit_quick("light");
  submit_quick("heavy");
  sim_.run_until_idle();
  began_.resize(128);
  EXPECT_EQ(began("heavy"), 96);
  EXPECT_EQ(began("light"), 32);
}

TEST_F(GroupShares, AGuaranteeIsBorrowedWhileItIsIdleAndComesBackAsTasksEnd) {
  GroupLimits vip = wide();
  vip.guaranteed = 2;
  make({.groups = {{"vip", vip}}, .default_group = wide(), .global_max_in_flight = 4});
  submit("bulk", 100);
  submit("other", 100);
  sim_.run_ready();
  EXPECT_EQ(running("bulk") + running("other"), 4U) << "all that is idle is used";
  submit("vip", 3, 100ms);
  sim_.advance(9ms);
  EXPECT_EQ(running("vip"), 0U);
  sim_.advance(1ms);  // four end at once
  EXPECT_GE(running("vip"), 2U);
  sim_.advance(50ms);
  EXPECT_GE(running("vip"), 2U);
  EXPECT_EQ(running("vip") + running("bulk") + running("other"), 4U);
}

TEST_F(GroupShares, AGroupWithAGuaranteeDoesNotWaitBehindTheOthers) {
  make({.groups = {{"vip", {.max_concurrency = 10, .guaranteed = 1}}},
        .default_group = {.max_concurrency = 1},
        .global_max_in_flight = 1});
  for (int i = 0; i < 50; ++i) submit("group-" + std::to_string(i), 2);
  sim_.run_ready();
  submit("vip", 2);
  sim_.advance(10ms);
  EXPECT_EQ(began_.back(), "vip");
  sim_.advance(10ms);
  EXPECT_EQ(began_.back(), "vip") << "it has none again when its first task ends";
}

TEST_F(GroupShares, NoMoreIsPromisedThanThereIs) {
  EXPECT_THROW(GroupExecutor({.groups = {{"a", {.guaranteed = 3}}, {"b", {.guaranteed = 2}}},
                              .global_max_in_flight = 4},
                             sim_),
               Exception);
  EXPECT_THROW(GroupExecutor({.default_group = {.guaranteed = 1}, .global_max_in_flight = 4}, sim_),
               Exception);
  EXPECT_THROW(GroupExecutor({.default_group = {.weight = 0}}, sim_), Exception);
  EXPECT_THROW(GroupExecutor({.default_group = {.rate = RateLimit{.per_second = 0}}}, sim_),
               Exception);
  EXPECT_THROW(GroupExecutor(
                   {.default_group = {.adaptive = AdaptiveLimits{.floor = 3, .ceiling = 2}}}, sim_),
               Exception);
}

TEST(GroupSharesThreads, WeightsGuaranteesAndRatesLoseNobody) {
  GroupLimits vip{.max_concurrency = 3, .weight = 4, .guaranteed = 1};
  GroupLimits rated{.max_concurrency = 2};
  rated.rate = RateLimit{.per_second = 20'000, .burst = 5};
  GroupLimits adaptive{.adaptive = AdaptiveLimits{.floor = 1, .ceiling = 8}};
  GroupExecutor executor({.groups = {{"vip", vip}, {"rated", rated}, {"adaptive", adaptive}},
                          .default_group = {.max_concurrency = 2},
                          .global_max_in_flight = 3});
  constexpr const char* kGroups[] = {"vip", "rated", "adaptive", "plain", "other"};
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 5'000; ++i) {
    handles.push_back(executor.submit(kGroups[i % 5], "t", [] { return 1; }));
  }
  for (auto& handle : handles) EXPECT_EQ(handle.join().value(), 1);
  EXPECT_EQ(executor.stats().succeeded, 5'000U);
}

// On one thread, with tasks that take longer than a turn's time.
TEST(Weights, HoldForLongTasksToo) {
  GroupExecutor executor(
      {.groups = {{"vip", {.max_concurrency = 8, .weight = 3}}, {"std", {.max_concurrency = 8}}}},
      ThreadPoolOptions{.threads = 1, .max_threads = 1});
  std::string order;
  executor.pause();
  for (int i = 0; i < 6; ++i) {
    for (const char* group : {"vip", "std"}) {
      EXPECT_TRUE(executor.post(group, [&order, group] {
        order += *group;
        const auto until = std::chrono::steady_clock::now() + 200us;
        while (std::chrono::steady_clock::now() < until) {
        }
      }));
    }
  }
  executor.resume();
  executor.drain();
  EXPECT_EQ(order, "vvvsvvvsssss");
}

}  // namespace
}  // namespace keyway
