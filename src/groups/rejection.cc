#include "groups/rejection.h"

#include <optional>
#include <string>

#include "keyway/detail/task_core.h"
#include "keyway/group_result.h"
#include "keyway/submit_awaiter.h"

namespace keyway {

namespace {

// What happened, and what the submitter can do.
const char* text_of(RejectionReason reason) {
  switch (reason) {
    case RejectionReason::kQueueFull:
      return "its queue is full; submit it again later, or raise the queue threshold";
    case RejectionReason::kGlobalQueueFull:
      return "the global queue is full; submit it again later, or raise the global queue threshold";
    case RejectionReason::kNoRoomInTime:
      return "its queue was full all the time; wait longer, submit it again later, or raise the "
             "queue threshold";
    case RejectionReason::kStopped:
      return "stop was requested while it waited for room in its queue";
    case RejectionReason::kWaitCycle:
      return "the wait for it would never have ended; submit it without waiting";
    case RejectionReason::kConflated:
      return "an older task with its id has not ended; submit it again after that one, or give it "
             "another id";
    case RejectionReason::kGroupShutdown:
      return "shutdown_group() ended it before it began; submit it again if it is still wanted";
    case RejectionReason::kShutdown:
      return "the executor was shut down before it began; submit it to another one";
  }
  return "unknown";
}

}  // namespace

namespace detail {

Error rejection_error(RejectionReason reason, std::string_view group_key,
                      std::string_view task_id) {
  return {.code = ErrorCode::kRejected,
          .message = name_of_task(group_key, task_id) + " was rejected: " + text_of(reason),
          .retryable = is_retryable(reason),
          .group_key = std::string(group_key),
          .task_id = std::string(task_id),
          .rejection = reason};
}

Error stopped_submit_error(const TaskCore& task) {
  Error error = rejection_error(RejectionReason::kStopped, task.group_key(), task.task_id());
  error.code = ErrorCode::kCancelled;
  return error;
}

std::optional<Error> conflated_error(const TaskCore& task) {
  if (!task.done() || task.status() != TaskStatus::kRejected) return std::nullopt;
  const RejectionReason reason = task.rejection();
  if (reason != RejectionReason::kConflated && reason != RejectionReason::kWaitCycle) {
    return std::nullopt;
  }
  Error error = rejection_error(reason, task.group_key(), task.task_id());
  if (reason == RejectionReason::kWaitCycle) error.code = ErrorCode::kWaitCycle;
  return error;
}

void throw_no_value(const std::string& group_key, const std::string& task_id,
                    RejectionReason reason) {
  throw rejected_error(reason, group_key, task_id);
}

}  // namespace detail

RejectedError rejected_error(RejectionReason reason, std::string_view group_key,
                             std::string_view task_id) {
  return RejectedError(detail::rejection_error(reason, group_key, task_id).message,
                       std::string(group_key), std::string(task_id), reason);
}

}  // namespace keyway
