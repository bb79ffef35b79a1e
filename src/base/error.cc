#include "keyway/error.h"

#include <cstdio>
#include <cstdlib>

namespace keyway {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kShutdown:
      return "shutdown";
    case ErrorCode::kRejected:
      return "rejected";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kExpired:
      return "expired";
    case ErrorCode::kWaitCycle:
      return "wait_cycle";
    case ErrorCode::kNoThread:
      return "no_thread";
    case ErrorCode::kResultTaken:
      return "result_taken";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kConflict:
      return "conflict";
  }
  return "unknown";
}

namespace detail {

void check_failed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  std::abort();
}

}  // namespace detail
}  // namespace keyway
