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

const char* to_string(RejectionReason reason) {
  switch (reason) {
    case RejectionReason::kQueueFull:
      return "queue_full";
    case RejectionReason::kGlobalQueueFull:
      return "global_queue_full";
    case RejectionReason::kNoRoomInTime:
      return "no_room_in_time";
    case RejectionReason::kStopped:
      return "stopped";
    case RejectionReason::kWaitCycle:
      return "wait_cycle";
    case RejectionReason::kConflated:
      return "conflated";
    case RejectionReason::kGroupShutdown:
      return "group_shutdown";
    case RejectionReason::kShutdown:
      return "shutdown";
  }
  return "unknown";
}

namespace detail {

void check_failed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  std::abort();
}

void value_of_failure(const Error& error) {
  std::fprintf(stderr, "check failed: Result::value() of a failure: %s: %.*s\n",
               to_string(error.code), static_cast<int>(error.message.size()),
               error.message.c_str());
  std::abort();
}

}  // namespace detail
}  // namespace keyway
