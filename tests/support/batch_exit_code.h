// What a batch's tests expect the program to end with; a test of the program checks that it does.
#pragma once

#include "jobs/run_progress.h"
#include "keyway/error.h"

namespace keyway::batch {

inline int exit_code(const Error& error) {
  if (error.code == ErrorCode::kIo) return 3;
  if (error.code == ErrorCode::kConflict) return 5;
  return 2;
}

inline int exit_code(const jobs::Summary& summary) {
  if (summary.failure && summary.ending != jobs::Ending::kOutputClosed) {
    return exit_code(*summary.failure);
  }
  switch (summary.ending) {
    case jobs::Ending::kFinished:
      return summary.failed == 0 ? 0 : 1;
    case jobs::Ending::kHalted:
      return 4;
    case jobs::Ending::kInterrupted:
      return 130;
    case jobs::Ending::kTerminated:
      return 143;
    default:
      return 3;
  }
}

}  // namespace keyway::batch
