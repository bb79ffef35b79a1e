// A deadline that cannot overflow.
#pragma once

#include "keyway/scheduler.h"

namespace keyway {

// TimePoint::max() if the sum is beyond it. No clock gets there, so such a deadline never passes.
inline TimePoint time_after(TimePoint start, Duration duration) {
  return duration > TimePoint::max() - start ? TimePoint::max() : start + duration;
}

// Null also for a deadline that never passes: a wait with it is not bounded.
inline const TimePoint* bound_of(const TimePoint* deadline) {
  return deadline != nullptr && *deadline != TimePoint::max() ? deadline : nullptr;
}

}  // namespace keyway
