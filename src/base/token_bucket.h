// So many per second, and a few at once: a bucket that fills steadily and is taken from.
//
//   TokenBucket calls({.per_second = 50, .burst = 10});
//   if (!calls.try_take(now)) wake_me_at(calls.next_at());
//
// It has no clock: whoever asks says what time it is.
//
// Guarantees:
//   (1) Over any time t, at most burst + per_second * t are taken, exactly: it counts in whole
//       numbers, and no error adds up. (Both are rounded once, down to a billionth of a token.)
//   (2) It is full at first, so that `burst` can be taken at once.
//   (3) If nobody takes meanwhile, try_take(next_at(n), n) succeeds; a nanosecond earlier it does
//       not, unless they were there already.
//   (4) A time that is earlier than one it was told before counts as that one.
// Not guaranteed: any order between those who wait for tokens.
//
// More than `burst` at once are never there: try_take() says no, next_at() TimePoint::max().
//
// Thread safety: as int.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ratio>

#include "keyway/detail/check.h"

namespace keyway {

class TokenBucket {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Options {
    double per_second = 1;  // 0: what is taken never comes back
    double burst = 1;
  };

  // REQUIRES: neither is negative, and both are at most kMost.
  static constexpr double kMost = 9e9;
  explicit TokenBucket(Options options)
      : rate_(billionths(std::floor(options.per_second * 1e9))),
        burst_(billionths(std::floor(options.burst * 1e9)) * kUnit),
        level_(burst_) {}

  // All of them, or none. REQUIRES: n >= 0.
  bool try_take(TimePoint now, double n = 1) {
    const Units wanted = needed(n);
    fill(now);
    if (wanted > level_) return false;
    level_ -= wanted;
    return true;
  }

  // Takes a token in advance. Returns the time at which it is there; TimePoint::max(): never.
  TimePoint take_in_advance(TimePoint now) {
    fill(now);
    level_ -= needed(1);
    return level_ >= 0 ? now : next_at(0);
  }

  // Gives back tokens that were taken and not used.
  void give_back(double n = 1) { level_ = std::min(burst_, level_ + needed(n)); }

  // When n will be there, if nobody takes any; a time that has passed if they are there already.
  TimePoint next_at(double n = 1) const {
    const Units wanted = needed(n);
    if (wanted <= level_) return filled_at_;
    if (wanted > burst_ || rate_ == 0) return TimePoint::max();
    const Units wait = (wanted - level_ + rate_ - 1) / rate_;
    const Units at = std::min(nanoseconds(filled_at_) + wait, nanoseconds(TimePoint::max()));
    return TimePoint(TimePoint::duration(static_cast<std::int64_t>(at)));
  }

 private:
  // Billionths of a billionth of a token: what a billionth per second gives in a nanosecond.
  __extension__ using Units = __int128;
  static constexpr Units kUnit = 1'000'000'000;
  static_assert(std::ratio_equal_v<TimePoint::period, std::nano>);

  // Two times can be further apart than a duration can say.
  static Units nanoseconds(TimePoint time) { return time.time_since_epoch().count(); }
  static std::int64_t billionths(double count) {
    KEYWAY_CHECK(count >= 0 && count <= kMost * 1e9, "TokenBucket: below 0, or above 9e9");
    return static_cast<std::int64_t>(count);
  }
  // Rounded up: whoever takes a third, three times, has not taken more than one.
  static Units needed(double n) {
    KEYWAY_CHECK(n >= 0, "TokenBucket: fewer than 0 tokens");
    return billionths(std::min(std::ceil(n * 1e9), kMost * 1e9)) * kUnit;
  }

  void fill(TimePoint now) {
    if (now <= filled_at_) return;
    // While it is full, how long is of no interest; before the first call it cannot be told.
    if (level_ < burst_) {
      const Units passed = nanoseconds(now) - nanoseconds(filled_at_);
      level_ = std::min(burst_, level_ + passed * rate_);
    }
    filled_at_ = now;
  }

  std::int64_t rate_;  // billionths of a token per second
  Units burst_;
  Units level_;  // below 0: taken in advance
  TimePoint filled_at_ = TimePoint::min();
};

}  // namespace keyway
