// From submit to a place in a lane, or to being turned away.
#include <utility>

#include "groups/group_engine.h"
#include "keyway/submit_awaiter.h"
#include "keyway/task_handle.h"
#include "runtime/thread_wakeup.h"

namespace keyway {

using detail::name_of;
using detail::TaskCore;

namespace {

Error no_room_error(const TaskCore& task) {
  return {.code = ErrorCode::kTimeout,
          .message = name_of(task) +
                     " was not taken: its queue was full all the time; wait longer, submit it "
                     "again later, or raise the queue threshold",
          .retryable = true,
          .group_key = std::string(task.group_key()),
          .task_id = std::string(task.task_id())};
}

// REQUIRES: the task found no room.
RejectionReason full_queue_of(const TaskCore& task) {
  return task.found_global_queue_full() ? RejectionReason::kGlobalQueueFull
                                        : RejectionReason::kQueueFull;
}

RejectedError rejected_error(const TaskCore& task, RejectionReason reason) {
  const char* what = reason == RejectionReason::kGlobalQueueFull
                         ? " was rejected: the global queue is full; submit it again later, or "
                           "raise the global queue threshold"
                         : " was rejected: its queue is full; submit it again later, or raise the "
                           "queue threshold";
  return RejectedError(name_of(task) + what, std::string(task.group_key()),
                       std::string(task.task_id()), reason);
}

}  // namespace

namespace detail {

Error shutdown_error(const TaskCore& task) {
  return {.code = ErrorCode::kShutdown,
          .message =
              name_of(task) + " was not taken: the executor is shut down; submit before shutdown()",
          .group_key = std::string(task.group_key()),
          .task_id = std::string(task.task_id())};
}

bool submit_if_room(GroupEngine& engine, TaskCore& task, std::size_t hash) {
  return engine.enqueue_if_room(task, hash);
}
void wait_for_room(GroupEngine& engine, TaskCore& task, RoomWaiter& waiter) {
  engine.wait_for_room(task, waiter);
}
void give_up_submit(GroupEngine& engine, TaskCore& task) {
  engine.turn_away(task, RejectionReason::kWaitCycle);
}

}  // namespace detail

bool GroupEngine::enqueue(TaskCore& task, std::size_t hash, Lane* lane, IfFull if_full) {
  tell_submitted(task);
  if (task.has_extras()) [[unlikely]] {
    task.retain();
    const detail::CoreReference hold(&task);
    if (is_conflated(task)) {
      const Conflated conflated = conflate(task);
      if (conflated != Conflated::kEnters) return conflated == Conflated::kIsIn;
    } else {
      start_expiry(task);
    }
    return enter_with_extras(task, hash, lane) || end_full(task, if_full);
  }
  return enter_and_post(task, hash, lane) || end_full(task, if_full);
}

// A task that ended at once because of another with its id is in: its handle knows.
bool GroupEngine::enqueue_if_room(TaskCore& task, std::size_t hash) {
  tell_submitted(task);
  if (!task.has_extras()) return enter_and_post(task, hash, nullptr);
  if (is_conflated(task)) {
    if (conflate(task) != Conflated::kEnters) return true;
  } else {
    start_expiry(task);
  }
  return enter_with_extras(task, hash, nullptr);
}

void GroupEngine::tell_submitted(TaskCore& task) const {
  // Until it begins, this is when it was submitted.
  if (observer_ != nullptr || policy_.oldest_first) task.set_started(scheduler_.now());
  tell_listener([&](auto& listener) { listener.on_submitted(task.group_key(), task.task_id()); });
}

// Comes before the task can be over, which it may be at any moment once it is in its lane. If the time is
// over before, the timer finds nothing to end, and after_entering() looks again.
void GroupEngine::start_expiry(TaskCore& task) {
  if (task.extras().expires) {
    scheduler_.add_timer(task.extras().expiry, task.extras().expires_at);
  }
}

// REQUIRES: the caller has a reference to the task.
bool GroupEngine::enter_with_extras(TaskCore& task, std::size_t hash, Lane* lane) {
  if (!enter_and_post(task, hash, lane)) return false;
  after_entering(task);
  return true;
}

void GroupEngine::after_entering(TaskCore& task) {
  expire_if_late(task);
  // A newer one came before it was in.
  if (task.extras().superseded.load(std::memory_order_relaxed)) withdraw_superseded(task);
}

void GroupEngine::expire_if_late(TaskCore& task) {
  if (!task.has_extras() || !task.extras().expires) return;
  if (scheduler_.now() >= task.extras().expires_at) expire(task);
}

// False if there is no room.
bool GroupEngine::enter_and_post(TaskCore& task, std::size_t hash, Lane* lane) {
  const bool ranked = is_ranked(task);
  LaneTable::Entry entry{LaneTable::Entered::kFull};
  if (admission_ == nullptr) [[likely]] {
    entry = enter(task, hash, lane, ranked);
  } else {
    Lane& pinned = pin(task.group_key());
    entry = enter_counted(task, pinned);
    table_.unpin(pinned);
  }
  if (entry.needs_turn != nullptr) scheduler_.post(*entry.needs_turn);
  if (entry.entered == LaneTable::Entered::kIn) [[likely]] {
    if (ranked) [[unlikely]]
      less_room();
    return true;
  }
  if (entry.entered == LaneTable::Entered::kFull && !table_.closed()) return false;
  refuse_closed(task);
}

bool GroupEngine::end_full(TaskCore& task, IfFull if_full) {
  // From here on whoever closes waits for this; if it was closed before, nothing more is run.
  const Use use(*this);
  if (table_.closed()) refuse_closed(task);
  if (if_full == IfFull::kAskPolicy) return reject(task);
  turn_away(task, full_queue_of(task));
  return false;
}

void GroupEngine::turn_away(TaskCore& task, RejectionReason reason) {
  task.set_awaits_room(false);
  count_outside(task, {.refused = 1});
  end_unrun(task, TaskStatus::kRejected, nullptr, reason);
}

void GroupEngine::count_outside(const TaskCore& task, const LaneCounts& counts) {
  const std::string_view key = task.group_key();
  table_.count_outside(key, LaneTable::hash(key), counts);
}

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
  const Use use(*this);
  if (enqueue_if_room(task, hash)) return {};
  task.set_awaits_room(true);
  TaskCore* waiter = detail::task_on_this_thread();
  std::unique_ptr<detail::TaskWait> wait;
  if (waiter != nullptr) {
    auto begun = waiter->owner().begin_wait(*waiter, task, /*bounded=*/deadline != nullptr);
    if (!begun) {
      turn_away(task, RejectionReason::kWaitCycle);
      return begun.error();
    }
    wait = std::move(begun).value();
  }
  Scheduler& scheduler = waiter != nullptr ? waiter->owner().scheduler() : scheduler_;
  scheduler.begin_blocking();
  wait_for_room(task, blocked);
  bool gave_up = false;
  if (!blocked.wakeup.wait(scheduler, deadline)) {
    // Unless somebody lets it in at this moment.
    const RoomLine::Entry removed = room_line_.remove(task);
    gave_up = removed.task != nullptr;
    gave_up ? left_room_line(removed) : static_cast<void>(blocked.wakeup.wait(scheduler));
  }
  if (wait != nullptr) {
    ThreadWakeup back;
    wait->end(back);
    back.wait(scheduler);
  }
  scheduler.end_blocking();
  if (blocked.let_in) return {};
  if (!gave_up) return detail::shutdown_error(task);
  const Error error = no_room_error(task);
  turn_away(task, RejectionReason::kNoRoomInTime);
  return error;
}

void GroupEngine::wait_for_room(TaskCore& task, detail::RoomWaiter& waiter) {
  task.retain();
  const detail::CoreReference hold(&task);  // whoever is told may let go of it
  task.set_awaits_room(true);
  Lane& lane = pin(task.group_key());
  table_.pin(lane);  // for here; the first pin goes with the entry
  room_line_.add({&task, &lane, &waiter});
  made_room(lane);
  table_.unpin(lane);
  expire_if_late(task);
  if (table_.closed()) let_nobody_in_any_more();
}

// Somebody behind it may cost less.
void GroupEngine::left_room_line(const RoomLine::Entry& entry) {
  made_room(*entry.lane);
  table_.unpin(*entry.lane);
}

void GroupEngine::let_all_in() {
  for (Lane* lane : room_line_.lanes()) let_in(*lane);
}

// Lets in as many as there is room for. The lane may be gone, if nobody waits for it.
void GroupEngine::let_in(Lane& lane) {
  while (true) {
    RoomLine::Entry entry;
    LaneTable::Entry entered;
    bool ranked = false;
    {
      MutexLock lock(room_line_.mutex);
      const RoomLine::Entry* first = room_line_.first(&lane);
      if (first == nullptr) return;
      entry = *first;
      ranked = is_ranked(*entry.task);
      entered = admission_ != nullptr ? enter_counted(*entry.task, lane)
                                      : LaneTable::enter(lane, entry.task->waiter(), ranked);
      if (entered.entered != LaneTable::Entered::kIn) return;
      room_line_.pop_first(&lane);
      entry.task->set_awaits_room(false);
    }
    if (entered.needs_turn != nullptr) scheduler_.post(*entered.needs_turn);
    table_.unpin(lane);
    entry.waiter->room_came(true);
    if (ranked) less_room();
  }
}

void GroupEngine::let_nobody_in_any_more() {
  for (const RoomLine::Entry& entry : room_line_.remove_all()) {
    table_.unpin(*entry.lane);
    entry.task->set_awaits_room(false);
    count_outside(*entry.task, {.refused = 1});
    end_unrun(*entry.task, TaskStatus::kRejected, nullptr, RejectionReason::kShutdown);
    entry.waiter->room_came(false);
  }
}

// ---- entering a lane

void GroupEngine::refuse_closed(TaskCore& task) {
  const Exception error(detail::shutdown_error(task));  // it names the task, which ends here
  end_unrun(task, TaskStatus::kRejected, nullptr, RejectionReason::kShutdown);
  throw error;
}

LaneTable::Entry GroupEngine::enter(TaskCore& task, std::size_t hash, Lane* lane, bool ranked) {
  if (lane != nullptr && !lane->limits_stale.load(std::memory_order_relaxed)) {
    return LaneTable::enter(*lane, task.waiter(), ranked);
  }
  if (ranked) [[unlikely]]
    return enter_ranked(task);
  const std::string_view key = task.group_key();
  const std::uint64_t changed = limits_changed_.load(std::memory_order_acquire);
  const bool uniform = uniform_limits_ && changed == 0;
  LaneTable::Entry entry =
      table_.enter(key, hash, task.waiter(), uniform ? &*uniform_limits_ : nullptr);
  if (entry.entered == LaneTable::Entered::kNeedsLimits) {
    const LaneLimits limits = resolve(key);  // user code: under no lock
    entry = table_.enter(key, hash, task.waiter(), &limits);
    // They may be lower than those that were forgotten, or higher.
    less_room();
    if (!room_line_.empty()) let_all_in();
  }
  // A lane that was made with limits of a moment ago: nobody runs in it before its turn is posted.
  if (entry.needs_turn != nullptr && limits_changed_.load(std::memory_order_acquire) != changed)
      [[unlikely]] {
    apply_changed_limits(*entry.needs_turn, key);
  }
  return entry;
}

LaneTable::Entry GroupEngine::enter_ranked(TaskCore& task) {
  Lane& lane = pin(task.group_key());
  const LaneTable::Entry entry = LaneTable::enter(lane, task.waiter(), /*ranked=*/true);
  table_.unpin(lane);
  return entry;
}

LaneRank GroupEngine::rank_of(const Waiter& waiter) const {
  const TaskCore& task = TaskCore::of(waiter);
  if (!task.has_extras()) return {};
  return {.cost = task.extras().cost, .priority = task.extras().priority};
}

// REQUIRES: the lane is pinned.
LaneTable::Entry GroupEngine::enter_counted(TaskCore& task, Lane& lane) {
  MutexLock lock(admission_->mutex);
  if (admission_->full()) {
    task.set_found_global_queue_full();
    return {LaneTable::Entered::kFull};
  }
  const bool takes_place = admission_->limit_reached();
  const std::uint64_t before = lane.could_run();
  task.set_has_place(takes_place);
  const LaneTable::Entry entry = LaneTable::enter(lane, task.waiter(), is_ranked(task));
  if (entry.entered == LaneTable::Entered::kIn) {
    admission_->could_run += lane.could_run() - before;
    if (takes_place) ++admission_->places;
  } else {
    task.set_has_place(false);
  }
  return entry;
}

void GroupEngine::give_up_place(TaskCore& task) {
  if (admission_ == nullptr || !task.has_place()) return;
  {
    MutexLock lock(admission_->mutex);
    --admission_->places;
    task.set_has_place(false);
  }
  if (!room_line_.empty()) let_all_in();
}

bool GroupEngine::reject(TaskCore& task) {
  RejectionPolicy what = policy_.rejection;
  std::exception_ptr error;
  if (policy_.rejection_handler) {
    try {
      what = policy_.rejection_handler(task.group_key(), task.task_id());
    } catch (...) {
      what = RejectionPolicy::kAbort;
      error = std::current_exception();
    }
  }
  if (what == RejectionPolicy::kCallerRuns) {
    run_by_caller(task);
    return true;
  }
  count_outside(task, {.refused = 1});
  if (what == RejectionPolicy::kAbort && error == nullptr) {
    error = std::make_exception_ptr(rejected_error(task, full_queue_of(task)));
  }
  end_unrun(task, TaskStatus::kRejected, error, full_queue_of(task));
  return false;
}

void GroupEngine::run_by_caller(TaskCore& task) {
  begin_use();  // until it has ended, which may be later and elsewhere
  count_outside(task, {.entered = 1});
  task.set_lane(nullptr);
  TaskStatus status{};
  if (run_task(task, 0, scheduler_.now(), status)) end_of_callers(task, status);
}

void GroupEngine::end_of_callers(TaskCore& task, TaskStatus status) {
  LaneCounts counts;
  if (status == TaskStatus::kSuccess) counts.succeeded = 1;
  if (status == TaskStatus::kFailed) counts.failed = 1;
  if (status == TaskStatus::kCancelled) counts.cancelled = 1;
  count_outside(task, counts);
  complete(task, status, scheduler_.now());
  end_use();
}

}  // namespace keyway
