// For tests of costs that must not grow with the number of items and that nothing counts: measured in CPU time.
#pragma once

#include <algorithm>
#include <ctime>

#include <gtest/gtest.h>

namespace keyway {

// Of the calling thread, on which a simulation runs: other threads and processes do not count.
inline double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Expects that the cost of an item stays about the same. `seconds(count)`: for that many items. Of several runs the fastest
// counts, because a busy machine only adds. Cache misses among many items cost a factor of three; a cost that grows with
// the number of items is `many / few` times as high, which should be 20 or more.
template <class Seconds>
void expect_cost_stays(Seconds seconds, int few, int many) {
  const auto fastest = [&](int count) {
    double least = seconds(count);
    for (int run = 1; run < 3; ++run) least = std::min(least, seconds(count));
    return least / count;
  };
  const double of_few = fastest(few);
  EXPECT_LT(fastest(many), 6 * of_few)
      << "seconds for each of " << many << "; limit: 6 times that of " << few;
}

}  // namespace keyway
