// Reads the time at less than half the price of std::chrono::steady_clock, for whoever reads it often.
//
// Between two readings of the real clock it counts the processor's ticks; how long a tick lasts it learns
// from those readings, and the longer it has watched them, the longer it trusts them: a tenth of that time,
// up to kTrust. So it is never further from steady_clock than a tenth more than such a reading itself, below
// a microsecond. On a machine without steady ticks it is
// steady_clock.
//
// Guarantees: never goes back. Not guaranteed: the same reading as another thread's at the same instant.
//
// Thread safety: one thread.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace keyway {

class TickClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  TimePoint now() {
    const std::uint64_t passed = ticks() - anchor_ticks_;
    if (passed >= trusted_ticks_) [[unlikely]]
      return read_real_clock();
    // 32.32 fixed point; trusted_ticks_ keeps the product within 64 bits.
    last_ = anchor_ + std::chrono::nanoseconds((passed * nanoseconds_per_tick_) >> 32);
    return last_;
  }

 private:
  static constexpr std::chrono::milliseconds kTrust{1};
  static constexpr std::chrono::seconds kBaseline{1};
  static constexpr std::chrono::microseconds kShortestBaseline{10};

  static std::uint64_t ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
  }
  TimePoint read_real_clock();
  void learn(std::chrono::nanoseconds measured, std::uint64_t ticks_now);

  TimePoint last_{};
  TimePoint anchor_{};
  std::uint64_t anchor_ticks_ = 0;
  // From where the length of a tick is measured: the longer ago, the better, up to kBaseline.
  TimePoint origin_{};
  std::uint64_t origin_ticks_ = 0;
  std::uint64_t nanoseconds_per_tick_ = 0;  // 32.32 fixed point
  std::uint64_t trusted_ticks_ = 0;         // 0: the length of a tick is not known
};

}  // namespace keyway
