#include "base/token_bucket.h"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;
using TimePoint = TokenBucket::TimePoint;

constexpr TimePoint kStart{1000h};

TEST(TokenBucket, IsFullAtFirstAndNotOfMoreThanItsBurst) {
  TokenBucket bucket({.per_second = 10, .burst = 3});
  EXPECT_LE(bucket.next_at(3), kStart);
  EXPECT_TRUE(bucket.try_take(kStart, 2));
  EXPECT_TRUE(bucket.try_take(kStart));
  EXPECT_FALSE(bucket.try_take(kStart));
  EXPECT_FALSE(bucket.try_take(kStart + 1h, 4));
  EXPECT_TRUE(bucket.try_take(kStart + 1h, 3)) << "an hour fills it, and no more";
  EXPECT_FALSE(bucket.try_take(kStart + 1h));
}

TEST(TokenBucket, WhatIsThereAtNextAtIsNotThereANanosecondBefore) {
  TokenBucket bucket({.per_second = 3, .burst = 1});
  TimePoint now = kStart;
  EXPECT_TRUE(bucket.try_take(now));
  for (int i = 1; i <= 3000; ++i) {
    const TimePoint next = bucket.next_at();
    ASSERT_FALSE(bucket.try_take(next - 1ns));
    ASSERT_TRUE(bucket.try_take(next));
    now = next;
  }
  // Each time a third of a second, rounded up to the nanosecond, and nothing is lost in between.
  EXPECT_GE(now, kStart + 1000s);
  EXPECT_LE(now, kStart + 1000s + 3000ns);
}

TEST(TokenBucket, LosesNothingToRoundingHoweverOftenItIsAsked) {
  TokenBucket bucket({.per_second = 7, .burst = 1'000'000});
  ASSERT_TRUE(bucket.try_take(kStart, 1'000'000));
  TimePoint now = kStart;
  // Each time far less than a token, and never a round part of one.
  while (now < kStart + 1s) {
    EXPECT_FALSE(bucket.try_take(now, 7.5));
    now += 1'000'003ns;
  }
  EXPECT_FALSE(bucket.try_take(kStart + 1'000'000'000'000ns - 1ns, 7000));
  EXPECT_TRUE(bucket.try_take(kStart + 1'000'000'000'000ns, 7000));
}

TEST(TokenBucket, MoreThanItsBurstIsNeverThere) {
  TokenBucket bucket({.per_second = 10, .burst = 3});
  EXPECT_EQ(bucket.next_at(3.5), TimePoint::max());
  EXPECT_FALSE(bucket.try_take(kStart, 3.5));
  EXPECT_EQ(bucket.next_at(1e300), TimePoint::max());
}

TEST(TokenBucket, WithoutARateWhatIsTakenNeverComesBack) {
  TokenBucket bucket({.per_second = 0, .burst = 2});
  EXPECT_TRUE(bucket.try_take(kStart, 2));
  EXPECT_FALSE(bucket.try_take(kStart + 10'000h));
  EXPECT_EQ(bucket.next_at(), TimePoint::max());
}

TEST(TokenBucket, ATimeThatGoesBackCountsAsTheLatestOne) {
  TokenBucket bucket({.per_second = 1, .burst = 1});
  EXPECT_TRUE(bucket.try_take(kStart));
  EXPECT_FALSE(bucket.try_take(kStart - 1h));
  EXPECT_FALSE(bucket.try_take(kStart + 500ms));
  EXPECT_FALSE(bucket.try_take(kStart - 500ms)) << "nothing is counted twice";
  EXPECT_FALSE(bucket.try_take(kStart + 999ms));
  EXPECT_TRUE(bucket.try_take(kStart + 1s));
}

TEST(TokenBucket, TakesTheLargestAndTheSmallestRate) {
  TokenBucket fast({.per_second = TokenBucket::kMost, .burst = TokenBucket::kMost});
  EXPECT_TRUE(fast.try_take(TimePoint::min() + 1ns, TokenBucket::kMost));
  EXPECT_TRUE(fast.try_take(TimePoint::min() + 1s + 1ns, TokenBucket::kMost));
  EXPECT_TRUE(fast.try_take(TimePoint::max() - 1s, TokenBucket::kMost)) << "584 years fill it";
  TokenBucket slow({.per_second = 1e-9, .burst = 1});
  EXPECT_TRUE(slow.try_take(kStart));
  EXPECT_EQ(slow.next_at(), kStart + 1'000'000'000s) << "31 years";
}

struct Taken {
  TimePoint at;
  double tokens;
};

// Of what was taken between each two times, no more than the burst and what came in between.
void expect_bounded(const std::vector<Taken>& taken, TokenBucket::Options options) {
  for (std::size_t first = 0; first < taken.size(); ++first) {
    double sum = 0;
    for (std::size_t last = first; last < taken.size(); ++last) {
      sum += taken[last].tokens;
      const std::chrono::duration<double> window = taken[last].at - taken[first].at;
      // All of them are numbers that a double holds exactly, but for the product.
      ASSERT_LE(sum, (options.burst + options.per_second * window.count()) * (1 + 1e-12))
          << "from " << first << " to " << last;
    }
  }
}

TEST(TokenBucket, NeverGivesMoreThanItsRateAllowsOverAnyWindowOfARandomSchedule) {
  const char* given = std::getenv("KEYWAY_SEED");
  const std::uint64_t first_seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  const std::uint64_t seeds = given == nullptr ? 100 : 1;
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    SCOPED_TRACE("KEYWAY_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto between = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const TokenBucket::Options options{.per_second = between(1, 4000) / 8.0,
                                       .burst = between(1, 80) / 8.0};
    TokenBucket bucket(options);
    std::vector<Taken> taken;
    TimePoint now = kStart;
    for (int i = 0; i < 300; ++i) {
      const double tokens = between(1, 24) / 8.0;
      switch (between(0, 3)) {
        case 0:
          break;  // at once
        case 1:
          now += std::chrono::nanoseconds(between(1, 100'000'000));
          break;
        case 2:
          now += std::chrono::nanoseconds(between(1, 1000));
          break;
        default:  // the very moment from which it must succeed
          if (const TimePoint next = bucket.next_at(tokens); next != TimePoint::max()) {
            now = std::max(now, next);
            ASSERT_TRUE(bucket.try_take(now, tokens));
            taken.push_back({now, tokens});
          }
          continue;
      }
      if (bucket.try_take(now, tokens)) taken.push_back({now, tokens});
    }
    ASSERT_FALSE(taken.empty() && options.burst >= 3);
    ASSERT_NO_FATAL_FAILURE(expect_bounded(taken, options));
  }
}

TEST(TokenBucket, TokensTakenInAdvanceComeOneByOne) {
  TokenBucket bucket({.per_second = 10, .burst = 2});
  EXPECT_EQ(bucket.take_in_advance(kStart), kStart);
  EXPECT_EQ(bucket.take_in_advance(kStart), kStart);
  EXPECT_EQ(bucket.take_in_advance(kStart), kStart + 100ms);
  EXPECT_EQ(bucket.take_in_advance(kStart), kStart + 200ms);
  EXPECT_FALSE(bucket.try_take(kStart + 299ms));
  EXPECT_EQ(bucket.take_in_advance(kStart + 299ms), kStart + 300ms);
  EXPECT_EQ(bucket.take_in_advance(kStart + 500ms), kStart + 500ms);
}

TEST(TokenBucket, ATokenTakenInAdvanceOfARateOfNoneNeverComes) {
  TokenBucket bucket({.per_second = 1e-12, .burst = 1});
  EXPECT_EQ(bucket.take_in_advance(kStart), kStart);
  EXPECT_EQ(bucket.take_in_advance(kStart), TimePoint::max());
}

}  // namespace
}  // namespace keyway
