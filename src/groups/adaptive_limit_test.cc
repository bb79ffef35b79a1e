#include "groups/adaptive_limit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;

// A server that serves up to `knee` tasks at full speed each, and beyond that divides its power
// among those inside; and somebody who always has another task for it, as far as the limit
// allows.
class SharingServer {
 public:
  double knee = 8;
  int demand = 1 << 20;  // how many its user would have inside at most
  std::function<double()> work = [] { return 0.010; };  // seconds at full speed

  explicit SharingServer(AdaptiveLimit& limit) : limit_(limit) {}

  // Runs until so many tasks have completed. Gives the limits that were in force, one per
  // completion.
  std::vector<int> run(int completions) {
    std::vector<int> limits;
    while (static_cast<int>(limits.size()) < completions) {
      fill();
      const auto next =
          std::min_element(inside_.begin(), inside_.end(),
                           [](const Task& a, const Task& b) { return a.left < b.left; });
      const double speed = std::min(1.0, knee / static_cast<double>(inside_.size()));
      const double passed = next->left / speed;
      for (Task& task : inside_) task.left -= passed * speed;
      now_ += passed;
      const double latency = now_ - next->began;
      const int running = static_cast<int>(inside_.size());
      inside_.erase(next);
      limits.push_back(limit_.on_completed(seconds(latency), running, TimePoint(seconds(now_))));
    }
    return limits;
  }

 private:
  struct Task {
    double began;
    double left;
  };
  static Duration seconds(double count) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
  }
  void fill() {
    while (static_cast<int>(inside_.size()) < std::min(limit_.limit(), demand)) {
      inside_.push_back({now_, work()});
    }
  }

  AdaptiveLimit& limit_;
  double now_ = 1000;
  std::vector<Task> inside_;
};

// What was in force most of the time: probes are short.
int usual(const std::vector<int>& limits) {
  std::vector<int> sorted = limits;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

std::function<double()> spread(double deviation, unsigned seed) {
  return [random = std::mt19937_64(seed),
          times = std::lognormal_distribution<double>(std::log(0.010), deviation)]() mutable {
    return times(random);
  };
}

TEST(AdaptiveLimit, FindsTheKneeFromBelowAndFromAbove) {
  for (const double knee : {1, 2, 3, 8, 20, 50}) {
    for (const int initial : {1, 8, 64, 200}) {
      SCOPED_TRACE("knee " + std::to_string(knee) + ", from " + std::to_string(initial));
      AdaptiveLimit limit({.floor = 1, .ceiling = 200, .initial = initial});
      SharingServer server(limit);
      server.knee = knee;
      server.run(4000);
      const int found = usual(server.run(2000));
      EXPECT_GE(found, knee);
      EXPECT_LE(found, knee + 2);
    }
  }
}

TEST(AdaptiveLimit, FindsItSoon) {
  AdaptiveLimit from_below({.floor = 1, .ceiling = 200});
  EXPECT_GE(SharingServer(from_below).run(150).back(), 8);
  AdaptiveLimit from_above({.floor = 1, .ceiling = 200, .initial = 64});
  EXPECT_LE(SharingServer(from_above).run(1000).back(), 10);
}

TEST(AdaptiveLimit, FindsTheKneeAmongTimesThatSpread) {
  for (const int initial : {1, 64}) {
    for (const unsigned seed : {1U, 2U, 3U, 4U, 5U}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", from " + std::to_string(initial));
      AdaptiveLimit limit({.floor = 1, .ceiling = 200, .initial = initial});
      SharingServer server(limit);
      server.work = spread(0.1, seed);
      server.run(4000);
      const int found = usual(server.run(4000));
      EXPECT_GE(found, 8);
      EXPECT_LE(found, 10);
    }
  }
}

TEST(AdaptiveLimit, IsOfTheRightSizeAmongTimesThatSpreadWidely) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    AdaptiveLimit limit({.floor = 1, .ceiling = 200});
    SharingServer server(limit);
    server.work = spread(0.5, seed);
    server.run(4000);
    const int found = usual(server.run(8000));
    EXPECT_GE(found, 7);
    EXPECT_LE(found, 14);
  }
}

// Each task takes a time that depends only on how many were inside when it began.
std::vector<int> run_on_curve(AdaptiveLimit& limit, const std::function<double(int)>& seconds) {
  struct Task {
    double began, ends;
  };
  std::vector<int> limits;
  std::vector<Task> inside;
  double now = 1000;
  const auto duration = [](double count) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
  };
  for (int i = 0; i < 8000; ++i) {
    while (static_cast<int>(inside.size()) < limit.limit()) {
      inside.push_back({now, now + seconds(static_cast<int>(inside.size()) + 1)});
    }
    const auto next = std::min_element(
        inside.begin(), inside.end(), [](const Task& a, const Task& b) { return a.ends < b.ends; });
    now = next->ends;
    const int running = static_cast<int>(inside.size());
    const Duration latency = duration(now - next->began);
    inside.erase(next);
    limits.push_back(limit.on_completed(latency, running, TimePoint(duration(now))));
  }
  limits.erase(limits.begin(), limits.begin() + 4000);
  return limits;
}

TEST(AdaptiveLimit, FindsAKneeBeyondWhichTheTimeGrowsGentlyOrSteeply) {
  for (const double slope : {0.0008, 0.00125, 0.005, 0.020}) {
    for (const int initial : {1, 100}) {
      SCOPED_TRACE("slope " + std::to_string(slope) + ", from " + std::to_string(initial));
      AdaptiveLimit limit({.floor = 1, .ceiling = 100, .initial = initial});
      const int found =
          usual(run_on_curve(limit, [&](int n) { return 0.010 + slope * std::max(0, n - 8); }));
      EXPECT_GE(found, 7);
      EXPECT_LE(found, 10);
    }
  }
}

TEST(AdaptiveLimit, WithoutAKneeGoesToItsCeilingAndStaysThere) {
  AdaptiveLimit limit({.floor = 2, .ceiling = 50});
  EXPECT_EQ(usual(run_on_curve(limit, [](int) { return 0.010; })), 50);
}

TEST(AdaptiveLimit, FollowsAServerThatIsLessAndThenMoreAgain) {
  AdaptiveLimit limit({.floor = 1, .ceiling = 200});
  SharingServer server(limit);
  server.work = spread(0.1, 1);
  EXPECT_NEAR(usual(server.run(2000)), 9, 1);
  server.knee = 2;
  server.run(500);
  EXPECT_NEAR(usual(server.run(1000)), 3, 1);
  server.knee = 8;
  server.run(500);
  EXPECT_NEAR(usual(server.run(1000)), 9, 1);
  server.knee = 80;
  server.run(3000);
  EXPECT_NEAR(usual(server.run(3000)), 82, 4);
}

TEST(AdaptiveLimit, TasksThatTakeLongerByNatureDoNotLowerItForLong) {
  AdaptiveLimit limit({.floor = 1, .ceiling = 200});
  SharingServer server(limit);
  server.run(1000);
  server.work = [] { return 0.050; };  // five times as long, however few are inside
  server.run(1000);
  EXPECT_NEAR(usual(server.run(1000)), 9, 1);
  server.work = [] { return 0.002; };
  server.run(1000);
  EXPECT_NEAR(usual(server.run(1000)), 9, 1);
}

TEST(AdaptiveLimit, OneSlowTaskDoesNotLowerIt) {
  AdaptiveLimit limit({.floor = 1, .ceiling = 200});
  SharingServer server(limit);
  server.run(1000);
  const std::vector<int> before = server.run(1000);
  int task = 0;
  server.work = [&] { return ++task % 100 == 50 ? 1.0 : 0.010; };  // each a hundred times as long
  const std::vector<int> after = server.run(1000);
  EXPECT_EQ(*std::min_element(after.begin(), after.end()),
            *std::min_element(before.begin(), before.end()))
      << "no lower than a probe was before";
  EXPECT_GE(usual(after), 8);
}

TEST(AdaptiveLimit, OneQuickTaskDoesNotLowerIt) {
  AdaptiveLimit limit({.floor = 1, .ceiling = 200});
  SharingServer server(limit);
  int task = 0;
  server.work = [&] { return ++task % 100 == 50 ? 0.000'001 : 0.010; };
  server.run(2000);
  EXPECT_GE(usual(server.run(2000)), 8);
}

// As many as the limit allows begin together, and end together before others begin.
TEST(AdaptiveLimit, GrowsWithTasksThatBeginAndEndTogether) {
  AdaptiveLimit limit({.floor = 2, .ceiling = 64});
  TimePoint now(1000s);
  int windows = 0;
  for (; windows < 30 && limit.limit() < 64; ++windows) {
    now += 20ms;
    for (int running = limit.limit(); running > 0; --running)
      limit.on_completed(20ms, running, now);
  }
  EXPECT_EQ(limit.limit(), 64) << "after " << windows << " times 20 ms";
}

TEST(AdaptiveLimit, DoublesUntilItSeesAQueueAndThenTakesSmallSteps) {
  AdaptiveLimit limit({.floor = 1, .ceiling = 200});
  SharingServer server(limit);
  server.knee = 20;
  const std::vector<int> limits = server.run(3000);
  std::vector<int> changes;
  for (const int one : limits) {
    if (changes.empty() || changes.back() != one) changes.push_back(one);
  }
  ASSERT_GE(changes.size(), 7U);
  EXPECT_EQ(std::vector<int>(changes.begin(), changes.begin() + 6),
            (std::vector{1, 2, 4, 8, 16, 32}));
  for (auto one = changes.begin() + 6; one != changes.end(); ++one) EXPECT_LE(*one, 24);
}

TEST(AdaptiveLimit, DoesNotGrowWhileItIsNotUsed) {
  AdaptiveLimit limit({.floor = 1, .ceiling = 200, .initial = 10});
  SharingServer server(limit);
  server.knee = 100;
  server.demand = 5;
  const std::vector<int> limits = server.run(5000);
  EXPECT_LE(*std::max_element(limits.begin(), limits.end()), 10);
  server.demand = 50;
  EXPECT_GE(server.run(5000).back(), 50) << "and does when it is";
}

TEST(AdaptiveLimit, StaysBetweenItsFloorAndItsCeilingAndIsAtMostHalvedAtOnce) {
  std::mt19937_64 random(5);
  AdaptiveLimit limit({.floor = 3, .ceiling = 40, .initial = 1000});
  EXPECT_EQ(limit.limit(), 40);
  SharingServer server(limit);
  int last = 40;
  for (int round = 0; round < 40; ++round) {
    server.knee = std::uniform_int_distribution<int>(1, 80)(random);
    server.work = spread(round % 4 * 0.5, static_cast<unsigned>(round));
    for (const int now : server.run(500)) {
      ASSERT_GE(now, 3);
      ASSERT_LE(now, 40);
      ASSERT_GE(now, std::max(3, last / 4)) << "halved, and a probe at the same time";
      last = now;
    }
  }
}

TEST(AdaptiveLimit, WithTheFloorForItsCeilingIsThat) {
  AdaptiveLimit limit({.floor = 4, .ceiling = 4});
  const std::vector<int> limits = SharingServer(limit).run(1000);
  EXPECT_EQ(*std::min_element(limits.begin(), limits.end()), 4);
  EXPECT_EQ(*std::max_element(limits.begin(), limits.end()), 4);
}

TEST(AdaptiveLimit, TheSameTasksGiveTheSameLimits) {
  const auto limits = [] {
    AdaptiveLimit limit({.floor = 1, .ceiling = 100});
    SharingServer server(limit);
    server.work = spread(0.4, 9);
    return server.run(3000);
  };
  EXPECT_EQ(limits(), limits());
}

}  // namespace
}  // namespace keyway
