#include "runtime/pool_growth.h"

#include <gtest/gtest.h>

namespace keyway {
namespace {

TEST(PoolGrowth, ThreadsThatAllRunAreEnoughHoweverManyTheyAre) {
  PoolGrowth growth(2, 4096);
  for (const unsigned active : {2U, 3U, 100U}) {
    const PoolGrowth::Decision decision = growth.decide(active, 0);
    EXPECT_EQ(decision.more, 0U);
    EXPECT_EQ(decision.target, std::max(active, 2U));
  }
}

TEST(PoolGrowth, OneThatIsBlockedIsMadeUpFor) {
  PoolGrowth growth(2, 4096);
  EXPECT_EQ(growth.decide(2, 1).more, 1U);
  EXPECT_EQ(growth.decide(3, 1).more, 0U);
}

TEST(PoolGrowth, IfAllAreBlockedTheirNumberIsDoubled) {
  PoolGrowth growth(2, 4096);
  unsigned active = 2;
  for (int tick = 0; tick < 9; ++tick) active += growth.decide(active, active).more;
  EXPECT_EQ(active, 1024U);
}

TEST(PoolGrowth, WhileACoreIsFreeItGrowsByAFourthOfTheBlocked) {
  PoolGrowth growth(2, 4096);
  EXPECT_EQ(growth.decide(801, 800).more, 200U);
  EXPECT_EQ(growth.decide(802, 800).more, 0U) << "both cores are busy";
}

TEST(PoolGrowth, WhatWasBlockedAMomentAgoMayBeAgainButNotForEver) {
  PoolGrowth growth(2, 4096);
  EXPECT_EQ(growth.decide(1000, 1000).target, 2000U);
  EXPECT_EQ(growth.decide(500, 3).target, 1002U) << "they have just woken, all together";
  unsigned target = 0;
  for (int tick = 0; tick < 32; ++tick) target = growth.decide(10, 3).target;
  EXPECT_EQ(target, 10U) << "as many as are active, and no more";
}

TEST(PoolGrowth, TheTargetHasABound) {
  PoolGrowth growth(2, 100);
  EXPECT_EQ(growth.decide(90, 90).target, 100U);
}

TEST(ProbePace, LooksTakeATwentiethOfTheTime) {
  using namespace std::chrono_literals;
  ProbePace pace;
  const TimePoint now(1h);
  EXPECT_TRUE(pace.is_due(now));
  pace.looked(now, 20us);
  EXPECT_TRUE(pace.is_due(now + 1ms));
  pace.looked(now, 1ms);
  EXPECT_FALSE(pace.is_due(now + 18ms));
  EXPECT_TRUE(pace.is_due(now + 19ms));
}

}  // namespace
}  // namespace keyway
