// How a task can end.
#pragma once

namespace keyway {

enum class TaskStatus {
  kSuccess,    // it returned
  kFailed,     // it threw
  kCancelled,  // it was cancelled before it began, or threw CancelledError; or a wait timed out
  kExpired,    // it never ran: its time to begin was over
  kRejected,   // it never ran: a queue was full, or the executor or its group was shut down
};

const char* to_string(TaskStatus status);

}  // namespace keyway
