#include "base/tick_clock.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(TickClock, NeverGoesBack) {
  TickClock clock;
  auto last = clock.now();
  for (int i = 0; i < 2'000'000; ++i) {
    const auto now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(TickClock, IsTheSteadyClockWhenItIsReadForTheFirstTime) {
  for (int i = 0; i < 1000; ++i) {
    const auto before = steady_clock::now();
    TickClock clock;
    const auto now = clock.now();
    EXPECT_GE(now, before);
    EXPECT_LE(now, steady_clock::now());
  }
}

// How far outside of two readings of the steady clock one in between was, at most.
std::chrono::nanoseconds worst_difference(TickClock& clock, std::chrono::milliseconds time) {
  std::chrono::nanoseconds worst{0};
  for (const auto end = steady_clock::now() + time;;) {
    const auto before = steady_clock::now();
    const auto now = clock.now();
    const auto after = steady_clock::now();
    worst = std::max({worst, before - now, now - after});
    if (after > end) return worst;
  }
}

TEST(TickClock, StaysWithinAMicrosecondOfTheSteadyClock) {
  TickClock clock;
  EXPECT_LT(worst_difference(clock, 300ms), 1us);
}

TEST(TickClock, StaysWithinAMicrosecondOfTheSteadyClockWhenItsThreadIsPreempted) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    busy.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  TickClock clock;
  EXPECT_LT(worst_difference(clock, 500ms), 1us);
  stop = true;
  for (std::thread& thread : busy) thread.join();
}

}  // namespace
}  // namespace keyway
