// Ends tasks that have not run: rejected, cancelled or expired ones.
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "groups/ending_scope.h"
#include "groups/group_engine.h"
#include "groups/rejection.h"
#include "keyway/error.h"
#include "keyway/submit_awaiter.h"

namespace keyway {

using detail::TaskCore;

namespace detail {

Error shutdown_error(const TaskCore& task) {
  return {.code = ErrorCode::kShutdown,
          .message =
              name_of(task) + " was not taken: the executor is shut down; submit before shutdown()",
          .group_key = std::string(task.group_key()),
          .task_id = std::string(task.task_id()),
          .rejection = RejectionReason::kShutdown};
}

}  // namespace detail

// ---- rejected

GroupEngine::Rejected GroupEngine::end_full(TaskCore& task, IfFull if_full) {
  // The use first: either close() waits for it, or closed() is true and no rejection handler or
  // task runs here.
  const QuietWatch::Use use(quiet_);
  if (table_.closed()) refuse_closed(task);
  if (if_full == IfFull::kAskPolicy) return reject(task);
  const RejectionReason reason = task.rejection();
  turn_away(task, reason);
  return reason;
}

GroupEngine::Rejected GroupEngine::reject(TaskCore& task) {
  RejectionPolicy what = policy_.rejection;
  std::exception_ptr error;
  if (policy_.rejection_handler) {
    const EndingScope scope(task);
    try {
      what = policy_.rejection_handler(task.group_key(), task.task_id());
    } catch (...) {
      what = RejectionPolicy::kAbort;
      error = std::current_exception();
    }
  }
  task.set_ending(false);
  if (table_.closed()) refuse_closed(task);  // meanwhile
  if (what == RejectionPolicy::kCallerRuns) {
    run_by_caller(task);
    return std::nullopt;
  }
  count_outside(task, {.refused = 1});
  const RejectionReason reason = task.rejection();
  if (what == RejectionPolicy::kAbort && error == nullptr) {
    error = std::make_exception_ptr(rejected_error(reason, task.group_key(), task.task_id()));
  }
  end_unrun(task, TaskStatus::kRejected, error, reason);
  return reason;
}

void GroupEngine::turn_away(TaskCore& task, RejectionReason reason) {
  task.set_awaits_room(false);
  count_outside(task, {.refused = 1});
  end_unrun(task, TaskStatus::kRejected, nullptr, reason);
}

void GroupEngine::refuse_wait(TaskCore& task) {
  tell_submitted(task);
  const QuietWatch::Use use(quiet_);
  if (table_.closed()) refuse_closed(task);
  turn_away(task, RejectionReason::kWaitCycle);
}

void GroupEngine::refuse_closed(TaskCore& task) {
  const Exception error(detail::shutdown_error(task));  // before end_unrun() frees the task
  count_outside(task, {.refused = 1});
  end_unrun(task, TaskStatus::kRejected, nullptr, RejectionReason::kShutdown);
  throw error;
}

// ---- cancelled or expired

bool GroupEngine::cancel(TaskCore& task) {
  const QuietWatch::Use use(quiet_);
  if (task.has_extras() && task.extras().follows.load(std::memory_order_relaxed))
    return cancel_follower(task);
  bool withdrawn = false;
  {
    Aftermath aftermath(scheduler_);
    withdrawn = withdraw(task, /*expired=*/false, aftermath);
  }
  if (withdrawn) {
    end_unrun(task, TaskStatus::kCancelled,
              std::make_exception_ptr(CancelledError("the task was cancelled before it began")));
    return true;
  }
  return !task.done() && task.operations().request_stop(task);
}

// May be called by the timer thread, so user code must not run here: endings_ notifies on other
// threads.
void GroupEngine::expire(TaskCore& task) noexcept {
  const QuietWatch::Use use(quiet_);
  Aftermath aftermath(scheduler_);
  const RoomLine::Entry outside =
      task.awaits_room() ? intake_.stop_waiting(task, aftermath) : RoomLine::Entry{};
  if (outside.task != nullptr) {
    count_outside(task, {.entered = 1, .expired = 1});
    aftermath.tell(*outside.waiter, true);
  } else if (!withdraw(task, /*expired=*/true, aftermath)) {
    return;
  }
  endings_.tell_later(
      unrun(task, TaskStatus::kExpired,
            std::make_exception_ptr(ExpiredError(
                name_of(task) + " expired: it could not begin in time; give it longer, or submit "
                                "less to its group")),
            RejectionReason{}, aftermath));
}

bool GroupEngine::withdraw(TaskCore& task, bool expired, Aftermath& aftermath) {
  const std::string_view key = task.group_key();
  Lane* lane = table_.pin_existing(key, LaneTable::hash(key));
  if (lane == nullptr) return false;
  const Lane::Withdrawn withdrawn =
      intake_.change(*lane, [&] { return lane->withdraw(task.waiter(), expired); });
  if (withdrawn.post_turn) aftermath.post(*lane);
  if (withdrawn) {
    intake_.made_room(*lane, aftermath);
    quiet_.changed();
  }
  table_.unpin(*lane);
  return withdrawn.withdrawn;
}

// ---- the end

// Makes the ending of a task that is in no lane and no line.
Ending GroupEngine::unrun(TaskCore& task, TaskStatus status, std::exception_ptr error,
                          RejectionReason reason, Aftermath& aftermath) noexcept {
  intake_.give_up_place(task, aftermath);
  task.set_ending(true);  // it needs neither permits nor a thread any more
  return {.task = &task,
          .status = status,
          .ended = scheduler_.now(),
          .ran = false,
          .reason = reason,
          .has_callable = true,
          .error = std::move(error)};
}

void GroupEngine::end_unrun(TaskCore& task, TaskStatus status, std::exception_ptr error,
                            RejectionReason reason) noexcept {
  Ending ending;
  {
    Aftermath aftermath(scheduler_);
    ending = unrun(task, status, std::move(error), reason, aftermath);
  }
  tell(ending);
}

void GroupEngine::tell(Ending& ending) noexcept {
  TaskCore& task = *ending.task;
  if (ending.asks_to_stop) {
    task.operations().request_stop(task);
    task.release();
    return;
  }
  if (ending.has_callable) {
    stop_expiry(task);
    const EndingScope scope(task);
    task.operations().drop(task, std::move(ending.error));
    task.set_started(ending.ended);
  }
  if (ending.status == TaskStatus::kRejected) task.set_rejection(ending.reason);
  complete(task, ending.status, ending.ended, ending.ran, ending.reason);
}

void GroupEngine::tell_posted(Ending& ending) noexcept {
  const QuietWatch::Use use(quiet_);  // replaces the use of the posted helper: a listener may drain
  quiet_.end();
  if (ending.task != nullptr) tell(ending);
}

}  // namespace keyway
