// Tasks of a group with the same id, of which not all are to run.
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
  const Found found = conflation_.enter(task);
  if (found.what == Found::kOneToFollow) return Conflated::kIsIn;
  if (found.what != Found::kNobody) {
    task.extras().conflation = Conflation::kNone;  // it is not in the table
    const Error error = other_type_error(task);
    turn_away(task, RejectionReason::kConflated);
    if (found.what == Found::kOneOfAnotherType) throw Exception(error);
    return Conflated::kEnded;
  }
  start_expiry(task);
  bool is_in = false;
  for (const detail::CoreReference& other : found.others) {
    if (!is_in && take_place_of(*other, task)) {
      is_in = true;
      continue;
    }
    withdraw_superseded(*other);
    if (task.extras().conflation == Conflation::kCancelRunning && !other->done()) {
      other->operations().request_stop(*other);
    }
  }
  if (is_in) after_entering(task);
  return is_in ? Conflated::kIsIn : Conflated::kEnters;
}

// True if `other` waited, and `task` stands there now.
bool GroupEngine::take_place_of(TaskCore& other, TaskCore& task) {
  const QuietWatch::Use use(quiet_);
  Lane* lane = table_.pin_existing(task.group_key(), LaneTable::hash(task.group_key()));
  if (lane == nullptr) return false;
  // A place in the global queue is the queue's, not the task's. Written before anybody can take it.
  task.set_has_place(other.has_place());
  const bool took = lane->replace(other.waiter(), task.waiter());
  table_.unpin(*lane);
  if (!took) {
    task.set_has_place(false);
    return false;
  }
  other.set_has_place(false);
  end_superseded(other);
  return true;
}

// For one that may wait, may not have entered yet, may run, or have ended.
void GroupEngine::withdraw_superseded(TaskCore& task) {
  const QuietWatch::Use use(quiet_);
  bool withdrawn = false;
  {
    Aftermath aftermath(scheduler_);
    withdrawn = withdraw(task, /*expired=*/false, aftermath);
  }
  if (withdrawn) end_superseded(task);
}

void GroupEngine::end_superseded(TaskCore& task) {
  end_unrun(task, TaskStatus::kCancelled,
            std::make_exception_ptr(
                CancelledError("the task was superseded by a newer one with the same id")));
}

// The copies of the value are made first: once the end is told, the task's handle may take the value.
void GroupEngine::tell_all_ends(TaskCore& task, TaskStatus status, TimePoint ended, bool ran,
                                RejectionReason reason) noexcept {
  std::vector<Ending> followers = followers_of(task, status, ended, reason);
  tell_end(task, status, ended, ran, reason);
  endings_.tell(std::move(followers));
}

// The tasks that end with this one, each with a copy of its value. REQUIRES: the task's value is there, and its handle
// cannot take it yet.
std::vector<Ending> GroupEngine::followers_of(TaskCore& task, TaskStatus status, TimePoint ended,
                                              RejectionReason reason) {
  std::vector<Ending> endings;
  for (detail::CoreReference& follower : conflation_.leave(task)) {
    const bool copied = follower->operations().copy(*follower, task, status);
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
    // The table's reference goes: until it is told, the runner's is there.
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

const TaskCore* GroupEngine::ends_with(const TaskCore& task) {
  if (!task.has_extras() || !task.extras().follows) return &task;
  const TaskCore* found = &task;
  conflation_.with_leader(task, [&](TaskCore& leader) { found = &leader; });
  return found;
}

}  // namespace keyway
