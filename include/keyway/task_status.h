// How a task, or the wait for it, ended.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include "keyway/detail/enum_text.h"

namespace keyway {

enum class TaskStatus {
  kSuccess,    // it returned
  kFailed,     // it threw
  kCancelled,  // it was cancelled before it began, or threw CancelledError; or a join() was stopped
  kExpired,    // it never ran: its time to begin was over
  kRejected,   // it never ran: a queue was full, or the executor or its group was shut down
  kTimedOut,   // join_for() or await_for() reached its timeout; the task goes on
};

const char* to_string(TaskStatus status);

}  // namespace keyway
