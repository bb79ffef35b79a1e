// Tasks of a group with the same id, of which not all are to run.
#include "groups/ending_scope.h"
#include "groups/group_engine.h"

namespace keyway {

using detail::TaskCore;

namespace {

Error other_type_error(const TaskCore& task) {
  return {ErrorCode::kInvalidArgument,
          name_of(task) + " cannot share a result: the task that has its id gives another type"};
}

}  // namespace

// What becomes of a task that was just submitted, before it enters its lane.
// REQUIRES: the caller has a reference to it.
GroupEngine::Conflated GroupEngine::conflate(TaskCore& task) {
  using Found = ConflationTable::Found;
  if (table_.closed()) {
    task.extras().conflation = Conflation::kNone;  // it is not in the table
    refuse_closed(task);
  }
  detail::CoreReference leader;
  const Found found = conflation_.enter(task, leader);
  if (found == Found::kOneToFollow) return follow(task, *leader);
  if (found != Found::kToRun) {
    task.extras().conflation = Conflation::kNone;  // it is not in the table
    const Error error = other_type_error(task);
    turn_away(task, RejectionReason::kConflated);
    if (found == Found::kOneOfAnotherType) throw Exception(error);
    return Conflated::kEnded;
  }
  start_expiry(task);
  if (!supersedes(task)) return Conflated::kEnters;
  for (const detail::CoreReference& other : conflation_.older_than(task, /*superseded=*/false)) {
    if (!take_place_of(*other, task)) continue;
    after_entering(task);
    return Conflated::kIsIn;
  }
  return Conflated::kEnters;
}

GroupEngine::Conflated GroupEngine::follow(TaskCore& task, TaskCore& leader) {
  auto wait = std::make_unique<FollowerWait>(task);
  if (wait->begin(leader)) {
    conflation_.keep(task, wait);
    return Conflated::kIsIn;
  }
  // The leader waits for this task: a call of execute_all() had announced its wait.
  if (!conflation_.remove_follower(task)) return Conflated::kIsIn;  // the leader has ended
  task.extras().conflation = Conflation::kNone;
  turn_away(task, RejectionReason::kWaitCycle);
  return Conflated::kEnded;
}

// True if `other` waited in its queue; `task` has entered the queue instead.
bool GroupEngine::take_place_of(TaskCore& other, TaskCore& task) {
  const QuietWatch::Use use(quiet_);
  Lane* lane = table_.pin_existing(task.group_key(), LaneTable::hash(task.group_key()));
  if (lane == nullptr) return false;
  bool took = false;
  {
    Aftermath aftermath(scheduler_);
    const Lane::Withdrawn replaced = intake_.change(*lane, [&] {
      // A place in the global queue is the queue's, not the task's. Under the mutex of change(), because `other` may be
      // entering; before replace(), because a worker may take `task` at once.
      task.set_has_place(other.has_place());
      const Lane::Withdrawn withdrawn = lane->replace(other.waiter(), task.waiter());
      (withdrawn ? other : task).set_has_place(false);
      return withdrawn;
    });
    took = replaced.withdrawn;
    if (replaced.post_turn) aftermath.post(*lane);
    if (took && Intake::is_costly(task) && lane->take_need_grew()) {
      intake_.room_shrank(lane->key(), aftermath);
    }
    if (took) intake_.made_room(*lane, aftermath);  // `task` may cost less
  }
  table_.unpin(*lane);
  if (!took) return false;
  end_superseded(other);
  return true;
}

// Ends the older tasks that have not begun. With kCancelRunning, requests running ones to stop.
// REQUIRES: `task` has entered its queue.
void GroupEngine::supersede_older(const TaskCore& task) {
  for (const detail::CoreReference& other : conflation_.older_than(task, /*superseded=*/true)) {
    withdraw_superseded(*other);
    if (task.extras().conflation == Conflation::kCancelRunning && !other->done()) {
      other->operations().request_stop(*other);
    }
  }
  conflation_.done_with_older(task);
}

// Ends `task` if it stands in its queue or in the line for room; otherwise does nothing.
void GroupEngine::withdraw_superseded(TaskCore& task) {
  const QuietWatch::Use use(quiet_);
  bool withdrawn = false;
  {
    Aftermath aftermath(scheduler_);
    withdrawn = take_out_superseded(task, aftermath);
  }
  if (withdrawn) end_superseded(task);
}

// Takes `task` out of its queue, or out of the line for room. False if it is in neither.
bool GroupEngine::take_out_superseded(TaskCore& task, Aftermath& aftermath) {
  const RoomLine::Entry outside =
      task.awaits_room() ? intake_.stop_waiting(task, aftermath) : RoomLine::Entry{};
  if (outside.task == nullptr) return withdraw(task, /*expired=*/false, aftermath);
  count_outside(task, {.entered = 1, .cancelled = 1});
  aftermath.tell(*outside.waiter, true);  // the handle has the status
  return true;
}

// Called by the thread that made room, so user code must not run here: endings_ notifies on other
// threads.
void GroupEngine::came_in(TaskCore& task) noexcept {
  if (!is_conflated(task)) return;
  const QuietWatch::Use use(quiet_);
  const auto end_later = [&](TaskCore& other) {
    Aftermath aftermath(scheduler_);
    if (!take_out_superseded(other, aftermath)) return false;
    endings_.tell_later(
        unrun(other, TaskStatus::kCancelled, superseded_error(), RejectionReason{}, aftermath));
    return true;
  };
  if (supersedes(task)) {
    for (detail::CoreReference& other : conflation_.older_than(task, /*superseded=*/true)) {
      if (end_later(*other) || other->done()) continue;
      if (task.extras().conflation == Conflation::kCancelRunning) {
        endings_.tell_later({.task = other.release(), .asks_to_stop = true});
      }
    }
    conflation_.done_with_older(task);
  }
  // A newer task superseded this one before it entered.
  if (task.extras().superseded.load(std::memory_order_relaxed)) end_later(task);
}

// True if `task` has taken the place of an older task in the line for room.
bool GroupEngine::wait_in_place_of_older(TaskCore& task, detail::RoomWaiter& waiter) {
  for (const detail::CoreReference& other : conflation_.older_than(task, /*superseded=*/false)) {
    RoomLine::Entry replaced;
    {
      Aftermath aftermath(scheduler_);
      replaced = intake_.wait_in_place_of(*other, task, waiter, aftermath);
      if (replaced.task == nullptr) continue;
      count_outside(*other, {.entered = 1, .cancelled = 1});
      aftermath.tell(*replaced.waiter, true);
    }
    end_superseded(*other);
    return true;
  }
  return false;
}

std::exception_ptr GroupEngine::superseded_error() {
  return std::make_exception_ptr(
      CancelledError("the task was superseded by a newer one with the same id"));
}

void GroupEngine::end_superseded(TaskCore& task) {
  end_unrun(task, TaskStatus::kCancelled, superseded_error());
}

// Copies the value for the followers before tell_end(): after it, the task's handle may take the
// value. Adds the followers to endings_ before tell_end(), because a listener of this task may wait
// for them.
void GroupEngine::tell_all_ends(TaskCore& task, TaskStatus status, TimePoint ended, bool ran,
                                RejectionReason reason) noexcept {
  std::vector<Ending> followers = followers_of(task, status, ended, reason);
  if (followers.empty()) return tell_end(task, status, ended, ran, reason);
  const QuietWatch::Use use(quiet_);  // keeps the engine alive after the last task has ended
  endings_.add(std::move(followers));
  tell_end(task, status, ended, ran, reason);
  endings_.tell_added();
}

// The followers of `task`, each with a copy of its value. REQUIRES: `task` is not published.
std::vector<Ending> GroupEngine::followers_of(TaskCore& task, TaskStatus status, TimePoint ended,
                                              RejectionReason reason) {
  std::vector<Ending> endings;
  auto followers = conflation_.leave(task);
  if (followers.empty()) return endings;
  const EndingScope of_leader(task);
  for (auto& [follower, wait] : followers) {
    wait.reset();  // the graph must not refer to the leader any longer
    const EndingScope of_follower(*follower);
    const bool copied = follower->extras().copy_result(*follower, task, status);
    const TaskStatus its_status = copied ? status : TaskStatus::kFailed;
    LaneCounts counts{.entered = 1};
    if (its_status == TaskStatus::kSuccess) counts.succeeded = 1;
    if (its_status == TaskStatus::kFailed) counts.failed = 1;
    if (its_status == TaskStatus::kCancelled) counts.cancelled = 1;
    if (its_status == TaskStatus::kExpired) counts.expired = 1;
    if (its_status == TaskStatus::kRejected) counts.drained = 1;
    count_outside(task, counts);
    follower->set_started(task.started());
    follower->extras().conflation = Conflation::kNone;
    // Releases the table's reference. The runner's reference lasts until the ending is told.
    endings.push_back({.task = follower.get(),
                       .status = its_status,
                       .ended = ended,
                       .ran = false,
                       .reason = reason});
  }
  return endings;
}

bool GroupEngine::cancel_follower(TaskCore& task) {
  if (!conflation_.remove_follower(task)) return false;
  count_outside(task, {.entered = 1, .cancelled = 1});
  task.extras().conflation = Conflation::kNone;
  end_unrun(task, TaskStatus::kCancelled,
            std::make_exception_ptr(CancelledError("the task was cancelled before it ended")));
  return true;
}

}  // namespace keyway
