// The path of a task from submit to publish.
#include "groups/group_engine.h"

#include <algorithm>
#include <utility>

#include "base/quoted.h"
#include "base/tick_clock.h"
#include "groups/ending_scope.h"
#include "runtime/current_task.h"
#include "runtime/left_locks.h"

namespace keyway {

using detail::TaskCore;

namespace {

// How long a lane may keep a worker before others have their turn.
constexpr int kTurnTasks = 16;
constexpr auto kTurnTime = std::chrono::microseconds(20);

LaneOutcome outcome_of(TaskStatus status) {
  switch (status) {
    case TaskStatus::kSuccess:
      return LaneOutcome::kSucceeded;
    case TaskStatus::kCancelled:
      return LaneOutcome::kCancelled;
    default:
      return LaneOutcome::kFailed;
  }
}

template <class Asks>
bool asks_for(const GroupPolicy& policy, Asks asks) {
  return asks(policy.default_group) ||
         std::any_of(policy.groups.begin(), policy.groups.end(),
                     [&](const auto& group) { return asks(group.second); });
}

bool asks_for_states(const GroupPolicy& policy) {
  return asks_for(policy, [](const GroupLimits& limits) {
    return limits.weight || limits.guaranteed || limits.rate || limits.adaptive;
  });
}

bool asks_for_shares(const GroupPolicy& policy) {
  return policy.global_max_in_flight != kUnlimited &&
         asks_for(policy,
                  [](const GroupLimits& limits) { return limits.weight || limits.guaranteed; });
}

GroupPolicy checked(GroupPolicy policy) {
  if (const Result<void> valid = policy.validate(); !valid) throw Exception(valid.error());
  return policy;
}

}  // namespace

GroupEngine::GroupEngine(GroupPolicy policy, Scheduler& scheduler, bool shared)
    : policy_(checked(std::move(policy))),
      scheduler_(scheduler),
      shared_(shared),
      has_states_(asks_for_states(policy_)),
      limits_(policy_),
      table_(*this),
      dispatch_(policy_, scheduler, table_, asks_for_shares(policy_)),
      intake_(*this, policy_, table_, limits_),
      waits_(scheduler, table_, intake_, dispatch_),
      endings_(*this, scheduler),
      observer_(policy_.observe ? std::make_unique<GroupObserver>() : nullptr),
      watches_ends_(observer_ != nullptr || has_states_) {
  scheduler_.add_idle_listener(*this);
}

GroupEngine::~GroupEngine() = default;

std::string GroupEngine::name_of(const TaskCore& task) const {
  if (!names_by_key_) return detail::name_of_task(task.group_key(), task.task_id());
  if (task.task_id().empty()) return "work for key " + quoted(task.group_key());
  return "work for key " + quoted(task.task_id()) + " on " + quoted(task.group_key());
}

// ---- submitted

GroupEngine::Rejected GroupEngine::enqueue(TaskCore& task, std::size_t hash, Lane* lane,
                                           IfFull if_full) {
  tell_submitted(task);
  if (task.has_extras()) [[unlikely]] {
    task.retain();
    const detail::CoreReference hold(&task);
    if (is_conflated(task)) {
      const Conflated conflated = conflate(task);
      if (conflated == Conflated::kIsIn) return std::nullopt;
      if (conflated == Conflated::kEnded) return task.rejection();
    } else {
      start_expiry(task);
    }
    if (enter_with_extras(task, hash, lane)) return std::nullopt;
    return end_full(task, if_full);
  }
  if (enter_and_post(task, hash, lane)) [[likely]]
    return std::nullopt;
  return end_full(task, if_full);
}

// Also true for a task that conflation ended at once: see conflated_error().
bool GroupEngine::enqueue_if_room(TaskCore& task, std::size_t hash) {
  if (enter_if_room(task, hash)) return true;
  if (table_.closed()) refuse_closed(task);
  return false;
}

bool GroupEngine::enter_if_room(TaskCore& task, std::size_t hash) {
  const bool stands_in_line = [&] {
    Aftermath aftermath(scheduler_);
    return intake_.has_line(task, hash, aftermath);
  }();
  if (!task.has_extras()) return !stands_in_line && enter_and_post(task, hash, nullptr);
  if (is_conflated(task)) {
    if (conflate(task) != Conflated::kEnters) return true;
  } else {
    start_expiry(task);
  }
  return !stands_in_line && enter_with_extras(task, hash, nullptr);
}

// To be called before the task enters its lane, because it may end at any time after that. If the
// timer fires before the task has entered, it finds nothing to end, and after_entering() checks the
// time again.
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
  if (supersedes(task)) supersede_older(task);
  // A newer task with its id entered first.
  if (task.extras().superseded.load(std::memory_order_relaxed)) withdraw_superseded(task);
}

void GroupEngine::expire_if_late(TaskCore& task) {
  if (!task.has_extras() || !task.extras().expires) return;
  if (scheduler_.now() >= task.extras().expires_at) expire(task);
}

// False if there is no room, or the executor is shut down.
bool GroupEngine::enter_and_post(TaskCore& task, std::size_t hash, Lane* lane) {
  Aftermath aftermath(scheduler_);
  return intake_.enter(task, hash, lane, aftermath) == LaneTable::Entered::kIn;
}

// ---- run

TimePoint GroupEngine::read_clock(const Turn& turn) const {
  return turn.clock != nullptr ? turn.clock->now() : scheduler_.now();
}

void GroupEngine::run_turn(Lane& lane, Turn& turn) {
  // A drain waits for a blocked listener only if the turn counts as a use.
  const QuietWatch::Use use(quiet_, shared_ || policy_.listener != nullptr);
  GroupState* const state = has_states_ ? &GroupState::of(lane) : nullptr;
  const bool rated = state != nullptr && state->tokens;
  const LaneTake first = [&] {
    Aftermath aftermath(scheduler_);
    const Dispatch::Admitted admitted = dispatch_.admit(lane, state, aftermath);
    return admitted == Dispatch::Admitted::kNo ? LaneTake{}
                                               : take_first(lane, rated, admitted, aftermath);
  }();
  if (first.waiter == nullptr) return;
  // A LaneTake is not copied: its bytes were just written one by one, and a wide load would stall.
  Waiter* waiter = first.waiter;
  std::uint64_t number = first.number;
  std::uint32_t units = first.units;
  const int weight = state != nullptr ? static_cast<int>(state->weight) : 1;
  // By shares, each task goes through the gate, which counts it in the share of its lane.
  const bool takes_one = rated || dispatch_.by_shares();
  const TimePoint began = read_clock(turn);
  TimePoint started = began;
  for (int left = takes_one ? 0 : kTurnTasks * weight - 1;; --left) {
    TaskCore& task = TaskCore::of(*waiter);
    if (task.operations().is_return) [[unlikely]]
      return waits_.came_back(task, units);
    task.set_lane(&lane);
    if (units > 1) [[unlikely]]
      task.extras().units = units;
    TaskStatus status{};
    if (!run_task(task, number, started, status)) return;  // suspended: it keeps its permits
    const TimePoint ended = read_clock(turn);
    if (watches_ends_) [[unlikely]]
      watch_end(task, status, ended);
    // A thread that spins for the task takes its cache line away again and again, so the task is read once here, and then
    // not before its result is published.
    const std::uint32_t units_back = task.units();
    const bool silent = ends_silently(task, status);
    // If user code follows, another worker must be able to start the next task meanwhile.
    const bool go_on = silent && goes_on(left, kTurnTime * weight - (ended - began),
                                         /*owed=*/kTurnTasks * weight - left < weight);
    const LaneTake next = leave_lane(lane, units_back, status, go_on, silent ? &turn : nullptr);
    silent ? task.publish(status, ended) : complete(task, status, ended);
    if (next.waiter == nullptr) return;
    // A task that entered after `ended` must not have an earlier start time.
    started = next.stood_in_line ? ended : read_clock(turn);
    waiter = next.waiter;
    number = next.number;
    units = next.units;
  }
}

// The first task of a turn, with its permits. Without a waiter: the lane's turn is over.
LaneTake GroupEngine::take_first(Lane& lane, bool rated, Dispatch::Admitted admitted,
                                 Aftermath& aftermath) {
  const std::size_t hash = lane.hash();
  if (rated) table_.pin(lane);
  const LaneTake taken = lane.take();
  if (taken.post_turn) {
    aftermath.post(lane);
  } else {
    dispatch_.turn_over(lane, aftermath);
  }
  if (rated) {
    const bool begins =
        taken.waiter != nullptr && !TaskCore::of(*taken.waiter).operations().is_return;
    if (admitted == Dispatch::Admitted::kWithToken && !begins) {
      dispatch_.give_token_back(lane, aftermath);
    }
    table_.unpin(lane);
  }
  if (taken.waiter == nullptr) give_up_lane(lane, hash, taken, aftermath);
  return taken;
}

// True if the task has ended. REQUIRES: its lane is set.
bool GroupEngine::run_task(TaskCore& task, std::uint64_t number, TimePoint now,
                           TaskStatus& status) {
  if (task.hands_over()) [[unlikely]] {
    task.hand_over(number);
    return false;
  }
  if (observer_ != nullptr) [[unlikely]] {
    observer_->started(task.group_key(), LaneTable::hash(task.group_key()), now - task.started());
  }
  task.set_started(now);
  stop_expiry(task);
  if (task.has_place()) [[unlikely]] {
    Aftermath aftermath(scheduler_);
    intake_.give_up_place(task, aftermath);
  }
  const bool findable = is_findable(task);
  if (findable) {
    findable_.add(task);
    // relaxed: shutdown() stores the flag before it looks for running tasks, under the mutex that add() locked.
    const Lane* lane = task.lane();
    const bool stops =
        lane != nullptr ? lane->stop_wanted(number) : stops_all_.load(std::memory_order_relaxed);
    if (stops) task.operations().request_stop(task);
  }
  bool ended = false;
  {
    const detail::Operation* caller =
        task.holds_permits() ? nullptr : &detail::Operation::current();
    detail::LeftLocks::Ending ending(policy_.listener != nullptr ? &task : nullptr);
    const detail::CurrentTaskScope scope(&task, caller, /*passes_locks_on=*/caller != nullptr);
    tell_listener([&](auto& listener) { listener.on_started(task.group_key(), task.task_id()); });
    ended = task.operations().run(task, status);
    if (!ended) ending.suspended();
  }
  if (ended && findable) findable_.remove(task);
  return ended;
}

// For executors with an observer or with adaptive limits.
void GroupEngine::watch_end(TaskCore& task, TaskStatus status, TimePoint ended) {
  const std::string_view key = task.group_key();
  if (observer_ != nullptr) {
    observer_->ended(key, LaneTable::hash(key), ended - task.started());
  }
  // What the caller runs needs no permit, and says nothing about the group's limit.
  Lane* lane = task.lane();
  if (has_states_ && lane != nullptr && status == TaskStatus::kSuccess &&
      GroupState::of(*lane).adapts) {
    adapt(*lane, ended - task.started(), ended);
  }
}

void GroupEngine::count_outside(const TaskCore& task, const LaneCounts& counts) {
  const std::string_view key = task.group_key();
  table_.count_outside(key, LaneTable::hash(key), counts);
}

void GroupEngine::run_by_caller(TaskCore& task) {
  begin_use();  // until the task has ended, perhaps on another thread
  count_outside(task, {.entered = 1});
  task.set_lane(nullptr);
  TaskStatus status{};
  if (run_task(task, 0, scheduler_.now(), status)) end_of_callers(task, status);
}

// ---- ended

// Whether complete() runs no user code for this task.
bool GroupEngine::ends_silently(const TaskCore& task, TaskStatus status) const {
  return policy_.listener == nullptr && status == TaskStatus::kSuccess &&
         task.operations().value_is_silent && !is_conflated(task);
}

// Gives the permits of a task back, before its result is published. `go_on`: the next task of the lane
// gets them. `turn`: if not null, the calling thread runs no user code before it can come back for
// the lane.
LaneTake GroupEngine::leave_lane(Lane& lane, std::uint32_t units, TaskStatus status, bool go_on,
                                 Turn* turn) {
  Aftermath aftermath(scheduler_);
  const std::size_t hash = lane.hash();
  const LaneTake left =
      intake_.change(lane, [&] { return lane.finish(outcome_of(status), go_on, units); });
  if (left.post_turn) {
    // The permits of a costly task may be enough for two tasks. If this worker runs the first one,
    // another worker must come for the second.
    if (turn != nullptr && left.waiter == nullptr) {
      turn->again = &lane;
    } else {
      aftermath.post(lane);
    }
  }
  if (left.waiter == nullptr) give_up_lane(lane, hash, left, aftermath);
  intake_.made_room(lane, aftermath);
  return left;
}

// The lane may be freed already, unless its turn is out or the gate serves by shares.
void GroupEngine::give_up_lane(Lane& lane, std::size_t hash, const LaneTake& left,
                               Aftermath& aftermath) {
  dispatch_.leave_gate(lane, aftermath, left.post_turn);
  if (left.idle) table_.seen_idle(&lane, hash);
  quiet_.changed();
}

void GroupEngine::ended_after_suspension(TaskCore& task) noexcept {
  const QuietWatch::Use use(quiet_);  // the calling thread may belong to another scheduler
  findable_.remove(task);
  const TaskStatus status = [&] {
    const detail::LeftLocks::Ending ending(policy_.listener != nullptr ? &task : nullptr);
    return task.operations().collect(task);
  }();
  if (task.lane() == nullptr) {
    end_of_callers(task, status);
    return;
  }
  end_outside_turn(task, status);
}

// For a thread that does not have the lane's turn.
void GroupEngine::end_outside_turn(TaskCore& task, TaskStatus status) noexcept {
  const TimePoint ended = scheduler_.now();
  if (watches_ends_) watch_end(task, status, ended);
  leave_lane(*task.lane(), task.units(), status, /*go_on=*/false, nullptr);
  complete(task, status, ended);
}

void GroupEngine::end_of_callers(TaskCore& task, TaskStatus status) {
  LaneCounts counts;
  if (status == TaskStatus::kSuccess) counts.succeeded = 1;
  if (status == TaskStatus::kFailed) counts.failed = 1;
  if (status == TaskStatus::kCancelled) counts.cancelled = 1;
  count_outside(task, counts);
  const TimePoint ended = scheduler_.now();
  if (watches_ends_) watch_end(task, status, ended);
  const QuietWatch::Use use(quiet_);  // replaces the use of run_by_caller(): a listener may drain
  quiet_.end();
  complete(task, status, ended);
}

// REQUIRES: the task is not published, so that the listener can read its value.
void GroupEngine::tell_end(TaskCore& task, TaskStatus status, TimePoint ended, bool ran,
                           RejectionReason reason) noexcept {
  if (policy_.listener != nullptr) {
    const EndingScope scope(task);
    tell_listener([&](auto& listener) {
      if (status == TaskStatus::kRejected) {
        listener.on_rejected(task.group_key(), task.task_id(), reason);
        return;
      }
      TaskOutcome outcome{.status = status, .started = task.started(), .ended = ended, .ran = ran};
      if (status == TaskStatus::kSuccess) {
        outcome.value = {task.operations().value_type, task.operations().value(task)};
      } else {
        outcome.error = task.operations().error(task);
      }
      listener.on_completed(task.group_key(), task.task_id(), outcome);
    });
  }
  detail::LeftLocks::publish_next(task);
  task.publish(status, ended);
}

}  // namespace keyway
