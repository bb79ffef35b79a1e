#include "base/tick_clock.h"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace keyway {
namespace {

constexpr int kAttempts = 8;
constexpr std::uint64_t kTicksForBothReadings = 1000;

// Ticks at the same rate whatever the processor's power state, in step on all cores.
bool ticks_are_steady() {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kInvariant = 1U << 8;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
#else
  return false;
#endif
}

}  // namespace

TickClock::TimePoint TickClock::read_real_clock() {
  static const bool steady = ticks_are_steady();
  if (!steady) return std::chrono::steady_clock::now();
  // A thread that is preempted between the two readings has a pair that does not belong together.
  std::uint64_t ticks_now = 0;
  TimePoint now;
  std::uint64_t taken = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ticks_now = ticks();
    now = std::chrono::steady_clock::now();
    taken = ticks() - ticks_now;
    if (taken < kTicksForBothReadings) break;
  }
  if (taken >= kTicksForBothReadings) {  // a bad moment to learn from
    last_ = std::max(last_, now);
    return last_;
  }

  last_ = std::max(last_, now);
  const auto measured = now - origin_;
  // Too short a time tells too little of a tick.
  if (origin_ != TimePoint{} && measured >= kShortestBaseline) learn(measured, ticks_now);
  if (origin_ == TimePoint{} || measured >= kBaseline) {
    origin_ = now;
    origin_ticks_ = ticks_now;
  }
  anchor_ = last_;
  anchor_ticks_ = ticks_now;
  return last_;
}

void TickClock::learn(std::chrono::nanoseconds measured, std::uint64_t ticks_now) {
  const double per_tick =
      static_cast<double>(measured.count()) / static_cast<double>(ticks_now - origin_ticks_);
  // A strange length means that the machine moved, or slept: then count on nothing, and start anew.
  const bool plausible = per_tick > 0.1 && per_tick < 10.0;
  if (!plausible) origin_ = TimePoint{};
  constexpr double kOne = 4294967296.0;
  constexpr std::chrono::nanoseconds kLongest = kTrust;
  const double trusted = static_cast<double>(std::min(measured / 10, kLongest).count());
  nanoseconds_per_tick_ = plausible ? static_cast<std::uint64_t>(per_tick * kOne) : 0;
  trusted_ticks_ = plausible ? static_cast<std::uint64_t>(trusted / per_tick) : 0;
}

}  // namespace keyway
