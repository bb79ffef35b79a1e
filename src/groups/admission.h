// The global queue threshold: how many tasks may wait because the global limit is reached.
//
// A task *could run* if its own group has room for it. While as many as the global limit could run,
// the limit is reached, and whoever comes then takes a place in the global queue until it starts or
// ends. All of it happens under one mutex, and only in executors with such a threshold.
//
// Thread safety: the caller holds mutex around each step, together with the lane operation that the
// step belongs to, so that the counts always match the lanes.
#pragma once

#include <cstdint>

#include "base/mutex.h"

namespace keyway {

struct Admission {
  Admission(std::uint32_t limit_in_flight, std::uint32_t queue_threshold)
      : threshold(queue_threshold), limit(limit_in_flight) {}

  bool limit_reached() const KEYWAY_REQUIRES(mutex) { return could_run >= limit; }
  bool full() const KEYWAY_REQUIRES(mutex) { return limit_reached() && places >= threshold; }

  const std::uint64_t threshold;
  Mutex<LockRank::kAdmission> mutex;
  std::uint64_t limit KEYWAY_GUARDED_BY(mutex);
  std::uint64_t could_run KEYWAY_GUARDED_BY(mutex) = 0;
  std::uint64_t places KEYWAY_GUARDED_BY(mutex) = 0;
};

}  // namespace keyway
