#include "report/time_series.h"

#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;

constexpr TimeSeries::Time kStart{400'000h};

// Nanoseconds of all spans together.
double total(const TimeSeries& series, std::size_t channel = 0) {
  const std::vector<double> spans = series.spans(channel);
  return std::accumulate(spans.begin(), spans.end(), 0.0) *
         static_cast<double>(series.width().count());
}
std::uint64_t events(const TimeSeries& series) {
  return std::accumulate(series.events(0).begin(), series.events(0).end(), std::uint64_t{0});
}

TEST(TimeSeries, SaysHowManyThereWereAtOnce) {
  TimeSeries series({.most_buckets = 100});
  series.add_span(0, kStart, kStart + 10ms);
  series.add_span(0, kStart + 2ms, kStart + 4ms);
  series.add_span(0, kStart + 4ms + 250us, kStart + 5ms);
  const std::vector<double> spans = series.spans(0);
  ASSERT_EQ(spans.size(), 10U);
  const std::vector<double> expected{1, 1, 2, 2, 1.75, 1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < 10; ++i) EXPECT_DOUBLE_EQ(spans[i], expected[i]) << i;
}

TEST(TimeSeries, IsEmptyAtFirstAndTakesNothingFromAnEmptySpan) {
  TimeSeries series({});
  series.add_span(0, kStart, kStart);
  series.add_span(0, kStart + 1s, kStart);
  EXPECT_TRUE(series.empty());
  EXPECT_TRUE(series.spans(0).empty());
}

TEST(TimeSeries, BecomesWiderInsteadOfLongerAndLosesNothing) {
  TimeSeries series({.most_buckets = 50, .spans = 1, .events = 1});
  double expected = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto begin = kStart + i * 37ms;
    series.add_span(0, begin, begin + 90ms);
    series.add_event(0, begin);
    expected += 90e6;
    ASSERT_LE(series.size(), 50U);
  }
  EXPECT_GE(series.size(), 25U);
  EXPECT_NEAR(total(series), expected, expected * 1e-9);
  EXPECT_EQ(events(series), 5000U);
  // Everywhere but at the ends as many as there were: 90 ms every 37.
  const std::vector<double> spans = series.spans(0);
  for (std::size_t i = 1; i + 2 < spans.size(); ++i) EXPECT_NEAR(spans[i], 90.0 / 37, 0.05) << i;
}

TEST(TimeSeries, TakesTimesBeforeAllOthers) {
  TimeSeries series({.most_buckets = 10, .spans = 1, .events = 1});
  series.add_event(0, kStart);
  series.add_event(0, kStart - 3ms);
  EXPECT_LE(series.begin(), kStart - 3ms);
  EXPECT_EQ(series.size(), 4U);
  series.add_span(0, kStart - 1h, kStart + 1h);
  EXPECT_LE(series.size(), 10U);
  EXPECT_LE(series.begin(), kStart - 1h);
  EXPECT_EQ(events(series), 2U);
  EXPECT_NEAR(total(series), 7200e9, 1);
}

TEST(TimeSeries, AYearBetweenTwoTimesIsNoMoreThanItsBuckets) {
  TimeSeries series({.most_buckets = 1000, .spans = 1, .events = 1});
  series.add_event(0, kStart);
  series.add_event(0, kStart + 8760h);
  series.add_event(0, kStart - 8760h);
  EXPECT_LE(series.size(), 1000U);
  EXPECT_EQ(events(series), 3U);
}

TEST(TimeSeries, IsWhatABruteForceCountSaysForRandomSpans) {
  std::mt19937_64 random(11);
  std::uniform_int_distribution<int> start(-3000, 3000);
  std::uniform_int_distribution<int> length(0, 900);
  TimeSeries series({.most_buckets = 64});
  std::vector<std::pair<TimeSeries::Time, TimeSeries::Time>> all;
  for (int i = 0; i < 300; ++i) {
    const auto from = kStart + start(random) * 100us;
    const auto to = from + length(random) * 100us;
    series.add_span(0, from, to);
    all.emplace_back(from, to);
  }
  const std::vector<double> spans = series.spans(0);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto from = series.begin() + series.width() * static_cast<int>(i);
    double expected = 0;
    for (const auto& [a, b] : all) {
      const auto overlap = std::min(b, from + series.width()) - std::max(a, from);
      expected += std::max<double>(0, static_cast<double>(overlap.count()));
    }
    EXPECT_NEAR(spans[i], expected / static_cast<double>(series.width().count()), 1e-6) << i;
  }
}

}  // namespace
}  // namespace keyway
