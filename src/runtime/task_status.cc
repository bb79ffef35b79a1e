#include "keyway/task_status.h"

namespace keyway {

const char* to_string(TaskStatus status) {
  switch (status) {
    case TaskStatus::kSuccess:
      return "success";
    case TaskStatus::kFailed:
      return "failed";
    case TaskStatus::kCancelled:
      return "cancelled";
    case TaskStatus::kExpired:
      return "expired";
    case TaskStatus::kRejected:
      return "rejected";
    case TaskStatus::kTimedOut:
      return "timed_out";
  }
  return "unknown";
}

}  // namespace keyway
