// Submits that block: for room in the queue, or for the end of the task, which the submitter may run itself.
//
// A caller links its wait into the WaitGraph before its task can begin. So the graph refuses the
// last of the calls that would wait for each other while the task of that call has not begun. A
// caller always waits for a task that has begun.
#include <optional>
#include <utility>

#include "groups/blocked_wait.h"
#include "groups/group_engine.h"
#include "keyway/submit_awaiter.h"
#include "runtime/thread_wakeup.h"

namespace keyway {

using detail::name_of;
using detail::TaskCore;

namespace {

Error no_room_error(const TaskCore& task) {
  const bool global = task.rejection() == RejectionReason::kGlobalQueueFull;
  return {.code = ErrorCode::kTimeout,
          .message = name_of(task) + " was not taken: " + (global ? "the global" : "its") +
                     " queue was full all the time; wait longer, submit it again later, or raise "
                     "the " +
                     (global ? "global " : "") + "queue threshold",
          .retryable = true,
          .group_key = std::string(task.group_key()),
          .task_id = std::string(task.task_id())};
}

// A caller that submits a task and waits for it.
class Caller final : public detail::Continuation, public detail::RoomWaiter {
 public:
  Caller(TaskCore& task, Scheduler& scheduler) : task_(task), scheduler_(scheduler) {}
  ~Caller() { wait_.end(&scheduler_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // An error (kWaitCycle, kNoThread) if the wait would never end.
  Result<void> begin() {
    task_.set_awaits_room(true);  // until it is in its queue
    return wait_.begin(task_, /*bounded=*/false);
  }

  // The task will not enter its queue.
  void give_up() { wait_.end(&scheduler_); }

  // REQUIRES: it has entered its queue.
  void wait_for_end() {
    task_.set_awaits_room(false);
    if (task_.done()) return;
    if (task_.set_continuation(*this)) sleep(end_);
  }

  // The task will enter its queue, and hand over.
  void expect_turn() {
    expects_turn_ = true;
    task_.set_hands_over(true);
    task_.set_continuation(*this);
  }
  // The number of its turn; nullopt: the task has ended, and never began.
  std::optional<std::uint64_t> wait_for_turn() {
    sleep(room_);  // the operation that makes room wakes this caller last
    sleep(turn_);
    return number_;
  }
  // REQUIRES: it had its turn.
  void wait_for_end_after_turn() { sleep(end_); }

 private:
  void room_came(bool) noexcept override { room_.wake(); }
  void turn_came(std::uint64_t number) noexcept override {
    number_ = number;
    turn_.wake();
  }
  void task_done() noexcept override {
    const bool never_began = expects_turn_ && !number_;
    (never_began ? turn_ : end_).wake();
  }

  void sleep(ThreadWakeup& wakeup) {
    const WaitEnd end = block(wakeup, {.spins = kSpinsForTask, .scheduler = &scheduler_});
    KEYWAY_CHECK(end == WaitEnd::kDone,
                 "a call waits for a task, but the simulation has nothing more to run");
  }

  TaskCore& task_;
  Scheduler& scheduler_;
  BlockedWait wait_;
  bool expects_turn_ = false;
  std::optional<std::uint64_t> number_;
  ThreadWakeup room_;
  ThreadWakeup turn_;  // or the task's end, if it comes before
  ThreadWakeup end_;
};

}  // namespace

namespace detail {

bool submit_if_room(GroupEngine& engine, TaskCore& task, std::size_t hash) {
  engine.tell_submitted(task);
  return engine.enqueue_if_room(task, hash);
}
void wait_for_room(GroupEngine& engine, TaskCore& task, RoomWaiter& waiter) {
  engine.wait_for_room(task, waiter);
}
bool stop_waiting_for_room(GroupEngine& engine, TaskCore& task) {
  return engine.stop_waiting_for_room(task);
}
void give_up_submit(GroupEngine& engine, TaskCore& task, RejectionReason reason) {
  engine.turn_away(task, reason);
}

}  // namespace detail

// ---- waiting for room

Result<void> GroupEngine::enqueue_before(TaskCore& task, std::size_t hash,
                                         const TimePoint* deadline) {
  struct Blocked final : detail::RoomWaiter {
    void room_came(bool came) noexcept override {
      let_in = came;
      wakeup.wake();
    }
    bool let_in = false;
    ThreadWakeup wakeup;
  } blocked;
  tell_submitted(task);  // before the use: a listener may wait for a thread that drains
  const QuietWatch::Use use(quiet_);
  if (enqueue_if_room(task, hash)) {
    if (std::optional<Error> conflated = detail::conflated_error(task)) return *conflated;
    return {};
  }
  task.set_awaits_room(true);
  BlockedWait wait;
  if (Result<void> begun = wait.begin(task, /*bounded=*/deadline != nullptr); !begun) {
    turn_away(task, RejectionReason::kWaitCycle);
    return begun.error();
  }
  wait_for_room(task, blocked);
  bool gave_up = false;
  if (block(blocked.wakeup, {.deadline = deadline, .scheduler = &scheduler_}) != WaitEnd::kDone) {
    gave_up = stop_waiting_for_room(task);
    // Another thread has just let the task in, and is calling room_came().
    if (!gave_up) block(blocked.wakeup, {.scheduler = &scheduler_});
  }
  wait.end(&scheduler_);
  if (blocked.let_in) return {};
  if (!gave_up) return detail::shutdown_error(task);
  const Error error = no_room_error(task);
  turn_away(task, RejectionReason::kNoRoomInTime);
  return error;
}

void GroupEngine::wait_for_room(TaskCore& task, detail::RoomWaiter& waiter) {
  task.retain();
  const detail::CoreReference hold(&task);  // room_came() may release the waiter's reference
  const bool conflated = is_conflated(task);
  if (!conflated || !supersedes(task) || !wait_in_place_of_older(task, waiter)) {
    Aftermath aftermath(scheduler_);
    intake_.wait_for_room(task, waiter, aftermath);
  }
  expire_if_late(task);
  // A newer task superseded this one before it stood in the line.
  if (conflated && task.extras().superseded.load(std::memory_order_relaxed)) {
    withdraw_superseded(task);
  }
  // The caller may have lent its permits, so listeners and destructors run on other threads.
  if (table_.closed()) endings_.add(close_intake());
}

bool GroupEngine::stop_waiting_for_room(TaskCore& task) {
  Aftermath aftermath(scheduler_);
  return intake_.stop_waiting(task, aftermath).task != nullptr;
}

// ---- calls

bool GroupEngine::is_inside(std::string_view key) const {
  const TaskCore* task = detail::task_on_this_thread();
  return task != nullptr && &task->owner() == this && task->group_key() == key;
}

void GroupEngine::run_inside(TaskCore& task) {
  tell_submitted(task);
  run_by_caller(task);
}

void GroupEngine::run_handed_over(TaskCore& task, std::uint64_t number) {
  task.set_hands_over(false);
  TaskStatus status{};
  if (run_task(task, number, scheduler_.now(), status)) end_outside_turn(task, status);
}

Result<void> GroupEngine::call(TaskCore& task, std::size_t hash, CallerRuns caller_runs,
                               bool waits) {
  const bool may_enter = caller_runs != CallerRuns::kAlways;
  tell_submitted(task);  // before the wait begins: a listener may wait, too
  if (!may_enter) {
    if (task.has_extras()) start_expiry(task);
  } else if (!waits && enqueue_if_room(task, hash)) {
    return {};
  }
  const QuietWatch::Use use(quiet_);
  if (!waits && is_inside(task.group_key())) {  // the caller would wait for its own task
    const RejectionReason reason = task.rejection();
    turn_away(task, reason);
    return detail::rejection_error(reason, task.group_key(), task.task_id());
  }
  Caller caller(task, scheduler_);
  if (Result<void> begun = caller.begin(); !begun) {
    turn_away(task, RejectionReason::kWaitCycle);
    return begun;
  }
  if (may_enter && waits && enter_if_room(task, hash)) {
    caller.wait_for_end();
  } else if (caller_runs == CallerRuns::kNever || table_.closed()) {
    caller.give_up();  // before listeners and destructors of captures run
    if (table_.closed()) refuse_closed(task);
    const RejectionReason reason = task.rejection();
    turn_away(task, reason);
    return detail::rejection_error(reason, task.group_key(), task.task_id());
  } else {
    caller.expect_turn();
    wait_for_room(task, caller);
    if (const auto number = caller.wait_for_turn()) {
      run_handed_over(task, *number);
      caller.wait_for_end_after_turn();
    }
  }
  if (task.status() == TaskStatus::kRejected) return detail::shutdown_error(task);
  return {};
}

}  // namespace keyway
