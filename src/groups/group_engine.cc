#include "groups/group_engine.h"

#include <algorithm>
#include <utility>

#include "base/tick_clock.h"
#include "runtime/current_task.h"

namespace keyway {

using detail::name_of;
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

GroupStats stats_of(const LaneCounts& counts) {
  return {
      .submitted = counts.entered + counts.refused,
      .succeeded = counts.succeeded,
      .failed = counts.failed,
      .cancelled = counts.cancelled,
      .expired = counts.expired,
      .rejected = counts.refused + counts.drained,
      .running = counts.running,
      .waiting = counts.waiting,
  };
}

template <class Asks>
bool asks_for(const GroupPolicy& policy, Asks asks) {
  return asks(policy.default_group) ||
         std::any_of(policy.groups.begin(), policy.groups.end(),
                     [&](const auto& group) { return asks(group.second); });
}

}  // namespace

GroupEngine::GroupEngine(GroupPolicy policy, Scheduler& scheduler, bool shared)
    : policy_(std::move(policy)),
      scheduler_(scheduler),
      shared_(shared),
      has_states_(asks_for(policy_,
                           [](const GroupLimits& limits) {
                             return limits.weight || limits.guaranteed || limits.rate ||
                                    limits.adaptive;
                           })),
      shares_(
          policy_.global_max_in_flight != kUnlimited &&
          asks_for(policy_,
                   [](const GroupLimits& limits) { return limits.weight || limits.guaranteed; })),
      table_(*this),
      observer_(policy_.observe ? std::make_unique<GroupObserver>() : nullptr),
      watches_ends_(observer_ != nullptr || has_states_) {
  if (const Result<void> valid = policy_.validate(); !valid) throw Exception(valid.error());
  if (policy_.groups.empty() && !policy_.resolver) uniform_limits_ = resolve({});
  scheduler_.add_idle_listener(*this);
  if (policy_.global_max_in_flight == kUnlimited) return;
  const auto limit = static_cast<std::uint32_t>(policy_.global_max_in_flight);
  const GateOrder order = shares_                ? GateOrder::kShares
                          : policy_.oldest_first ? GateOrder::kAge
                                                 : GateOrder::kArrival;
  gate_ = std::make_unique<GlobalGate>(limit, order);
  if (policy_.global_queue_threshold == kUnlimited) return;
  admission_ = std::make_unique<Admission>(
      limit, static_cast<std::uint32_t>(policy_.global_queue_threshold));
}

GroupEngine::~GroupEngine() = default;

// ---- while a task runs, and its end

TimePoint GroupEngine::read_clock(const Turn& turn) const {
  return turn.clock != nullptr ? turn.clock->now() : scheduler_.now();
}

void GroupEngine::run_turn(Lane& lane, Turn& turn) {
  const Use use(*this, shared_);
  // relaxed: a hint; hold_turn() looks again.
  if (paused_.load(std::memory_order_relaxed) && hold_turn(lane)) return;
  GroupState* const state = has_states_ ? &GroupState::of(lane) : nullptr;
  const bool rated = state != nullptr && state->tokens;
  if (rated && waits_for_tokens(lane, *state)) return;
  if (gate_ && !gate_->enter(lane)) return;
  pin_for_gate(lane);
  const std::size_t hash = lane.hash();
  const LaneTake first = lane.take();
  if (rated && first.waiter != nullptr && !TaskCore::of(*first.waiter).operations().is_return) {
    state->tokens->try_take(scheduler_.now());
  }
  if (first.post_turn) scheduler_.post(lane);
  if (first.waiter == nullptr) {
    give_up_lane(lane, hash, first);
    return;
  }
  const int weight = state == nullptr ? 1 : static_cast<int>(state->weight);
  const TimePoint began = read_clock(turn);
  TimePoint started = began;
  Lane* current = &lane;
  Waiter* waiter = first.waiter;
  std::uint64_t number = first.number;
  std::uint32_t units = first.units;
  for (int left = rated ? 0 : kTurnTasks * weight - 1;; --left) {
    TaskCore& task = TaskCore::of(*waiter);
    task.set_lane(current);
    if (units > 1) [[unlikely]]
      task.extras().units = units;
    TaskStatus status{};
    if (!run_task(task, number, started, status)) return;  // suspended: it keeps its permits
    const TimePoint ended = read_clock(turn);
    current = task.lane();  // another one with the same key, if it waited and came back
    if (watches_ends_) [[unlikely]]
      watch_end(task, status, ended);
    const bool go_on = goes_on(left, kTurnTime * weight - (ended - began));
    const LaneTake next = leave_lane(task, status, go_on, &turn);
    complete(task, status, ended);
    if (next.waiter == nullptr) return;
    // One that has come since may not seem to have begun before.
    const bool at_once = next.stood_in_line && policy_.listener == nullptr;
    started = at_once ? ended : read_clock(turn);
    waiter = next.waiter;
    number = next.number;
    units = next.units;
  }
}

// For executors that observe, or have a limit that is found by measuring.
void GroupEngine::watch_end(TaskCore& task, TaskStatus status, TimePoint ended) {
  const std::string_view key = task.group_key();
  if (observer_ != nullptr) {
    observer_->ended(key, LaneTable::hash(key), ended - task.started());
  }
  if (has_states_ && status == TaskStatus::kSuccess && GroupState::of(*task.lane()).adapts) {
    adapt(*task.lane(), ended - task.started(), ended);
  }
}

bool GroupEngine::goes_on(int tasks_left, Duration time_left) const {
  return tasks_left > 0 && time_left > Duration::zero() && !(gate_ && gate_->contended()) &&
         !paused_.load(std::memory_order_relaxed);
}

// True if it has ended. REQUIRES: its lane is set.
bool GroupEngine::run_task(TaskCore& task, std::uint64_t number, TimePoint now,
                           TaskStatus& status) {
  if (task.operations().is_return) return task.operations().run(task, status);
  if (task.hands_over()) [[unlikely]] {
    task.hand_over(number);
    return false;
  }
  if (observer_ != nullptr) [[unlikely]] {
    observer_->started(task.group_key(), LaneTable::hash(task.group_key()), now - task.started());
  }
  task.set_started(now);
  stop_expiry(task);
  give_up_place(task);
  const bool findable = is_findable(task);
  if (findable) {
    findable_.add(task);
    const Lane* lane = task.lane();
    if (lane != nullptr && lane->stop_wanted(number)) task.operations().request_stop(task);
  }
  tell_listener([&](auto& listener) { listener.on_started(task.group_key(), task.task_id()); });
  bool ended = false;
  {
    const detail::Operation* caller =
        task.holds_permits() ? nullptr : &detail::Operation::current();
    const detail::CurrentTaskScope scope(&task, caller);
    ended = task.operations().run(task, status);
  }
  if (ended && findable) findable_.remove(task);
  return ended;
}

// Gives the task's permits back, before anybody hears that it is done. If it goes on, the next task
// of the lane has them. `turn`: of the thread that will come back for the lane, if it has one.
LaneTake GroupEngine::leave_lane(TaskCore& task, TaskStatus status, bool go_on, Turn* turn) {
  Lane& lane = *task.lane();
  const std::size_t hash = lane.hash();
  const LaneTake left =
      change(lane, [&] { return lane.finish(outcome_of(status), go_on, task.units()); });
  if (left.post_turn) {
    if (turn != nullptr && ends_silently(task, status)) {
      turn->again = &lane;
    } else {
      scheduler_.post(lane);
    }
  }
  if (left.waiter == nullptr) give_up_lane(lane, hash, left);
  made_room(lane);
  return left;
}

// Whether no code of the user's, which might take long, runs between here and its very end.
bool GroupEngine::ends_silently(const TaskCore& task, TaskStatus status) const {
  return policy_.listener == nullptr && status == TaskStatus::kSuccess &&
         task.operations().value_is_trivial;
}

// The lane may be gone already, unless it is known to have its turn out, or the gate looks at shares.
void GroupEngine::give_up_lane(Lane& lane, std::size_t hash, const LaneTake& left) {
  if (gate_ != nullptr) leave_gate(lane);
  if (left.idle) table_.seen_idle(&lane, hash);
  somebody_left();
}

void GroupEngine::leave_gate(Lane& lane) {
  if (Lane* next = gate_->leave(lane)) scheduler_.post(*next);
  if (shares_) table_.unpin(lane);
}

void GroupEngine::ended_after_suspension(TaskCore& task) noexcept {
  const Use use(*this);  // the thread may be anybody's
  findable_.remove(task);
  const TaskStatus status = task.operations().collect(task);
  if (task.lane() == nullptr) {
    end_of_callers(task, status);
    return;
  }
  end_outside_turn(task, status);
}

// On a thread that has not come with the lane's turn.
void GroupEngine::end_outside_turn(TaskCore& task, TaskStatus status) noexcept {
  const TimePoint ended = scheduler_.now();
  if (watches_ends_) watch_end(task, status, ended);
  leave_lane(task, status, /*go_on=*/false, nullptr);
  complete(task, status, ended);
}

void GroupEngine::complete(TaskCore& task, TaskStatus status, TimePoint ended,
                           EndedBy by) noexcept {
  if (is_conflated(task)) [[unlikely]]
    end_followers(task, status, ended, by.reason);
  tell_end(task, status, ended, by);
}

// REQUIRES: not published yet, so that the listener can look at the value.
void GroupEngine::tell_end(TaskCore& task, TaskStatus status, TimePoint ended,
                           EndedBy by) noexcept {
  tell_listener([&](auto& listener) {
    if (status == TaskStatus::kRejected) {
      listener.on_rejected(task.group_key(), task.task_id(), by.reason);
      return;
    }
    TaskOutcome outcome{.status = status, .started = task.started(), .ended = ended, .ran = by.ran};
    if (status == TaskStatus::kSuccess) {
      outcome.value = {task.operations().value_type, task.operations().value(task)};
    } else {
      outcome.error = task.operations().error(task);
    }
    listener.on_completed(task.group_key(), task.task_id(), outcome);
  });
  task.publish(status, ended);
}

void GroupEngine::end_unrun(TaskCore& task, TaskStatus status, std::exception_ptr error,
                            RejectionReason reason) noexcept {
  stop_expiry(task);
  give_up_place(task);
  task.operations().drop(task, std::move(error));
  const TimePoint now = scheduler_.now();
  task.set_started(now);
  complete(task, status, now, {.ran = false, .reason = reason});
}

// ---- from outside

bool GroupEngine::cancel(TaskCore& task) {
  const Use use(*this);
  const std::string_view key = task.group_key();
  const std::size_t hash = LaneTable::hash(key);
  if (task.has_extras() && task.extras().follows) return cancel_follower(task);
  if (withdraw(task, key, hash, /*expired=*/false)) {
    end_unrun(task, TaskStatus::kCancelled,
              std::make_exception_ptr(CancelledError("the task was cancelled before it began")));
    return true;
  }
  return !task.done() && task.operations().request_stop(task);
}

void GroupEngine::expire(TaskCore& task) noexcept {
  const Use use(*this);
  const std::string_view key = task.group_key();
  const RoomLine::Entry outside = task.awaits_room() ? room_line_.remove(task) : RoomLine::Entry{};
  if (outside.task != nullptr) {
    task.set_awaits_room(false);
    count_outside(task, {.entered = 1, .expired = 1});
  } else if (!withdraw(task, key, LaneTable::hash(key), /*expired=*/true)) {
    return;
  }
  end_unrun(task, TaskStatus::kExpired,
            std::make_exception_ptr(ExpiredError(
                name_of(task) + " expired: it could not begin in time; give it longer, or submit "
                                "less to its group")));
  if (outside.task == nullptr) return;
  outside.waiter->room_came(true);
  left_room_line(outside);
}

bool GroupEngine::withdraw(TaskCore& task, std::string_view key, std::size_t hash, bool expired) {
  Lane* lane = table_.pin_existing(key, hash);
  if (lane == nullptr) return false;
  const Lane::Withdrawn withdrawn =
      change(*lane, [&] { return lane->withdraw(task.waiter(), expired); });
  if (withdrawn.post_turn) scheduler_.post(*lane);
  if (withdrawn) made_room(*lane);
  table_.unpin(*lane);
  return withdrawn.withdrawn;
}

Lane& GroupEngine::pin(std::string_view key) {
  const std::size_t hash = LaneTable::hash(key);
  Lane* lane = table_.pin_existing(key, hash);
  if (lane == nullptr) {
    const std::uint64_t changed = limits_changed_.load(std::memory_order_acquire);
    lane = &table_.pin(key, hash, resolve(key));
    if (limits_changed_.load(std::memory_order_acquire) != changed) {
      apply_changed_limits(*lane, key);
    }
    return *lane;
  }
  if (lane->limits_stale.exchange(false, std::memory_order_relaxed)) {
    const LaneLimits limits = resolve(key);
    if (change(*lane, [&] { return lane->set_limits(limits); })) scheduler_.post(*lane);
    less_room();
    made_room(*lane);
  }
  return *lane;
}

GroupStats GroupEngine::stats() {
  LaneCounts counts = table_.counts_of_freed();
  table_.for_each([&](Lane& lane) { counts += lane.counts(); });
  return stats_of(counts);
}

GroupStats GroupEngine::group_stats(std::string_view key) {
  return table_.with_lane(key, LaneTable::hash(key), [](Lane* lane) {
    return lane == nullptr ? GroupStats{} : stats_of(lane->counts());
  });
}

std::vector<std::string> GroupEngine::active_group_keys() {
  std::vector<std::string> keys;
  table_.for_each([&](Lane& lane) {
    const LaneCounts counts = lane.counts();
    if (counts.running + counts.waiting > 0) keys.emplace_back(lane.key());
  });
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace keyway
