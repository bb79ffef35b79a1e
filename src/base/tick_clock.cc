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

  using Nanoseconds = std::chrono::duration<double, std::nano>;
  const double passed = Nanoseconds(now - anchor_).count();
  const double ticks_passed = static_cast<double>(ticks_now - anchor_ticks_);
  const double per_tick = passed / ticks_passed;
  // Too short a time tells too little of a tick; a strange length means that one of the clocks was
  // set, or the machine moved: then start anew.
  const bool first = anchor_ == TimePoint{};
  if (!first && now - anchor_ < kTrust) {
    last_ = std::max(last_, now);
    return last_;
  }
  const bool plausible = !first && per_tick > 0.1 && per_tick < 10.0;
  constexpr double kOne = 4294967296.0;
  nanoseconds_per_tick_ = plausible ? static_cast<std::uint64_t>(per_tick * kOne) : 0;
  trusted_ticks_ =
      plausible ? static_cast<std::uint64_t>(Nanoseconds(kTrust).count() / per_tick) : 0;
  last_ = std::max(last_, now);
  anchor_ = last_;
  anchor_ticks_ = ticks_now;
  return last_;
}

}  // namespace keyway
