#include "base/histogram.h"

#include <algorithm>
#include <cmath>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using Place = detail::HistogramBucket;

TEST(HistogramBucket, EachNumberIsInTheOneBucketThatSaysSo) {
  std::vector<std::uint64_t> numbers{0, 1, 15, 16, 17, 31, 32, 33, 34, Place::kLongest};
  for (int bit = 5; bit < 49; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    numbers.insert(numbers.end(), {power - 1, power, power + 1, power + power / 3});
  }
  for (const std::uint64_t number : numbers) {
    const Place place = Place::of(number);
    ASSERT_LT(place.octave, Place::kOctaves);
    ASSERT_LE(place.lowest(), number);
    ASSERT_LT(number, place.lowest() + place.width());
  }
}

TEST(HistogramBucket, OneFollowsOnAnotherWithoutAGap) {
  std::uint64_t end = 0;
  for (int octave = 0; octave < Place::kOctaves; ++octave) {
    for (int step = 0; step < Place::kPerOctave; ++step) {
      const Place place{.octave = octave, .step = step};
      ASSERT_EQ(place.lowest(), end);
      end += place.width();
    }
  }
  EXPECT_EQ(end, Place::kLongest + 1);
}

TEST(Histogram, AnEmptyOneIsZeroAndCheap) {
  const Histogram empty;
  EXPECT_EQ(empty.count(), 0U);
  EXPECT_EQ(empty.sum(), 0ns);
  EXPECT_EQ(empty.max(), 0ns);
  EXPECT_EQ(empty.quantile(0.5), 0ns);
  EXPECT_EQ(empty.quantile(1), 0ns);
  EXPECT_TRUE(empty.buckets().empty());
  EXPECT_EQ(sizeof(Histogram), 56U);
  EXPECT_EQ(sizeof(ConcurrentHistogram), 24U);
}

TEST(Histogram, OfOneDurationEveryQuantileIsThatOne) {
  Histogram histogram;
  histogram.add(123'456'789ns);
  for (const double part : {-1.0, 0.0, 0.01, 0.5, 0.99, 1.0, 2.0}) {
    EXPECT_NEAR(static_cast<double>(histogram.quantile(part).count()), 123'456'789,
                123'456'789 / 32.0);
    EXPECT_LE(histogram.quantile(part), histogram.max());
  }
  EXPECT_EQ(histogram.quantile(1), 123'456'789ns);
  EXPECT_EQ(histogram.sum(), 123'456'789ns);
}

TEST(Histogram, QuantilesAreWithinAThirtySecondOfTheSortedDurations) {
  const unsigned seed = 7;
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> spread(std::log(5e7), 2.5);
  Histogram histogram;
  std::vector<nanoseconds> exact;
  nanoseconds sum{0};
  for (int i = 0; i < 20'000; ++i) {
    const nanoseconds duration{static_cast<std::int64_t>(spread(random))};
    histogram.add(duration);
    exact.push_back(duration);
    sum += duration;
  }
  std::sort(exact.begin(), exact.end());
  for (const double part : {0.0001, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999}) {
    const auto rank = static_cast<std::size_t>(std::ceil(part * 20'000)) - 1;
    const double expected = static_cast<double>(exact[rank].count());
    EXPECT_NEAR(static_cast<double>(histogram.quantile(part).count()), expected, expected / 32)
        << "quantile " << part;
  }
  EXPECT_EQ(histogram.max(), exact.back());
  EXPECT_EQ(histogram.quantile(1), exact.back());
  EXPECT_EQ(histogram.sum(), sum);
  EXPECT_EQ(histogram.count(), 20'000U);
}

TEST(Histogram, WhatIsNegativeCountsAsZero) {
  Histogram histogram;
  histogram.add(-5s);
  EXPECT_EQ(histogram.count(), 1U);
  EXPECT_EQ(histogram.sum(), 0ns);
  EXPECT_EQ(histogram.quantile(0.5), 0ns);
}

TEST(Histogram, WhatIsTooLongForItsBucketsStillHasAnExactMax) {
  Histogram histogram;
  histogram.add(1000h);
  histogram.add(1ns);
  EXPECT_EQ(histogram.max(), 1000h);
  EXPECT_EQ(histogram.quantile(1), 1000h);
  EXPECT_EQ(histogram.quantile(0.5), 1ns);
  EXPECT_GT(histogram.quantile(0.9), 150h);
}

TEST(Histogram, TheSumStopsAtTheLongestDurationThereIs) {
  Histogram histogram;
  histogram.add(nanoseconds::max());
  histogram.add(1h);
  EXPECT_EQ(histogram.sum(), nanoseconds::max());
  ConcurrentHistogram shared;
  shared.add(nanoseconds::max());
  shared.add(1h);
  EXPECT_EQ(shared.snapshot().sum(), nanoseconds::max());
}

void expect_same(const Histogram& a, const Histogram& b) {
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.sum(), b.sum());
  EXPECT_EQ(a.max(), b.max());
  const auto ours = a.buckets();
  const auto theirs = b.buckets();
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].low, theirs[i].low);
    EXPECT_EQ(ours[i].high, theirs[i].high);
    EXPECT_EQ(ours[i].count, theirs[i].count);
  }
}

TEST(Histogram, MergingIsTheSameAsAddingAllToOne) {
  Histogram all;
  Histogram slow;
  Histogram fast;
  for (int i = 1; i <= 500; ++i) {
    fast.add(i * 37ns);
    slow.add(i * 91ms);
    all.add(i * 37ns);
    all.add(i * 91ms);
  }
  Histogram merged;
  merged.merge(slow);
  merged.merge(fast);  // shorter than all before: it grows to the left
  merged.merge(Histogram{});
  expect_same(merged, all);
  merged.merge(merged);
  all.merge(Histogram(all));
  expect_same(merged, all);
}

TEST(Histogram, ItsBucketsHoldAllOfIt) {
  Histogram histogram;
  for (int i = 0; i < 1000; ++i) histogram.add(i * i * 1us);
  std::uint64_t count = 0;
  nanoseconds end{-1};
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    EXPECT_GE(bucket.low, end);
    EXPECT_GT(bucket.high, bucket.low);
    EXPECT_GT(bucket.count, 0U);
    end = bucket.high;
    count += bucket.count;
  }
  EXPECT_EQ(count, 1000U);
}

TEST(ConcurrentHistogram, AnEmptySnapshotIsAnEmptyHistogram) {
  expect_same(ConcurrentHistogram{}.snapshot(), Histogram{});
}

TEST(ConcurrentHistogram, LosesNothingThatManyThreadsAdd) {
  constexpr int kThreads = 4;
  constexpr int kEach = 5000;
  const auto duration = [](int thread, int i) {
    return nanoseconds{(i * 977L + 1) << (4 * thread)};
  };
  ConcurrentHistogram shared;
  std::latch start(kThreads);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        start.arrive_and_wait();
        for (int i = 0; i < kEach; ++i) shared.add(duration(thread, i));
      });
    }
  }
  Histogram expected;
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < kEach; ++i) expected.add(duration(thread, i));
  }
  expect_same(shared.snapshot(), expected);
}

TEST(ConcurrentHistogram, WhatASnapshotCountsIsInItsSumAndItsMax) {
  ConcurrentHistogram shared;
  std::latch start(2);
  std::jthread adder([&] {
    start.arrive_and_wait();
    for (int i = 0; i < 20'000; ++i) shared.add(1ms + i * 1us);
  });
  start.arrive_and_wait();
  std::uint64_t before = 0;
  while (before < 20'000) {
    const Histogram now = shared.snapshot();
    ASSERT_GE(now.count(), before);
    ASSERT_GE(now.sum(), now.count() * 1ms);
    const auto buckets = now.buckets();
    if (!buckets.empty()) {
      ASSERT_GE(now.max(), buckets.back().low);
    }
    before = now.count();
  }
}

}  // namespace
}  // namespace keyway
