#include "groups/group_engine.h"

#include <algorithm>
#include <utility>

#include "base/tick_clock.h"
#include "runtime/current_task.h"
#include "runtime/wait_graph.h"

namespace keyway {

using detail::name_of;
using detail::TaskCore;

namespace {

// How long a lane may keep a worker before others have their turn.
constexpr int kTurnTasks = 16;
constexpr auto kTurnTime = std::chrono::microseconds(100);

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

Error shutdown_error(const TaskCore& task) {
  return {ErrorCode::kShutdown, name_of(task) +
                                    " was not taken: the executor is shut down; submit before "
                                    "shutdown()"};
}

RejectedError rejected_error(const TaskCore& task) {
  return RejectedError(name_of(task) +
                       " was rejected: its queue is full; submit it again later, or raise the "
                       "queue threshold");
}

}  // namespace

GroupEngine::GroupEngine(GroupPolicy policy, Scheduler& scheduler, bool shared)
    : policy_(std::move(policy)), scheduler_(scheduler), shared_(shared), table_(*this) {
  if (const Result<void> valid = policy_.validate(); !valid) throw Exception(valid.error());
  if (policy_.groups.empty() && !policy_.resolver) uniform_limits_ = resolve({});
  scheduler_.add_idle_listener(*this);
  if (policy_.global_max_in_flight == kUnlimited) return;
  const auto limit = static_cast<std::uint32_t>(policy_.global_max_in_flight);
  gate_ = std::make_unique<GlobalGate>(limit);
  if (policy_.global_queue_threshold == kUnlimited) return;
  admission_ = std::make_unique<Admission>(
      limit, static_cast<std::uint32_t>(policy_.global_queue_threshold));
}

GroupEngine::~GroupEngine() = default;

template <class Call>
void GroupEngine::tell_listener(Call call) const noexcept {
  if (policy_.listener == nullptr) return;
  try {
    call(*policy_.listener);
  } catch (...) {  // a listener only watches
  }
}

// ---- before a task runs

bool GroupEngine::enqueue(TaskCore& task, std::size_t hash, Lane* lane) {
  tell_listener([&](auto& listener) { listener.on_submitted(task.group_key(), task.task_id()); });
  if (task.has_extras() && task.extras().expires) [[unlikely]]
    return enqueue_expiring(task, hash, lane);
  return enqueue_now(task, hash, lane);
}

// The timer comes first: once the task is in its lane, it may be over at any moment. If the time is over
// before, the timer finds nothing to end, and it is looked at again afterwards.
bool GroupEngine::enqueue_expiring(TaskCore& task, std::size_t hash, Lane* lane) {
  task.retain();
  const detail::CoreReference hold(&task);
  const TimePoint expires_at = task.extras().expires_at;
  scheduler_.add_timer(task.extras().expiry, expires_at);
  const bool taken = enqueue_now(task, hash, lane);
  if (taken && scheduler_.now() >= expires_at) expire(task);
  return taken;
}

bool GroupEngine::enqueue_now(TaskCore& task, std::size_t hash, Lane* lane) {
  const LaneTable::Entry entry = admission_ ? enter_counted(task) : enter(task, hash, lane);
  if (entry.needs_turn != nullptr) scheduler_.post(*entry.needs_turn);
  if (entry.entered == LaneTable::Entered::kIn) [[likely]]
    return true;
  if (entry.entered == LaneTable::Entered::kFull) {
    // From here on whoever closes waits for this; if it was closed before, nothing more is run.
    const Use use(*this);
    if (!table_.closed()) return reject(task);
  }
  refuse_closed(task);
}

void GroupEngine::refuse_closed(TaskCore& task) {
  const Exception error(shutdown_error(task));  // it names the task, which ends here
  end_unrun(task, TaskStatus::kRejected, nullptr);
  throw error;
}

LaneTable::Entry GroupEngine::enter(TaskCore& task, std::size_t hash, Lane* lane) {
  if (lane != nullptr && !lane->limits_stale.load(std::memory_order_relaxed)) {
    return LaneTable::enter(*lane, task.waiter(), is_ranked(task));
  }
  if (is_ranked(task)) [[unlikely]]
    return enter_ranked(task);
  const std::string_view key = task.group_key();
  const std::uint64_t changed = limits_changed_.load(std::memory_order_acquire);
  const bool uniform = uniform_limits_ && changed == 0;
  LaneTable::Entry entry =
      table_.enter(key, hash, task.waiter(), uniform ? &*uniform_limits_ : nullptr);
  if (entry.entered == LaneTable::Entered::kNeedsLimits) {
    const LaneLimits limits = resolve(key);  // user code: under no lock
    entry = table_.enter(key, hash, task.waiter(), &limits);
    WaitGraph::instance().look_again();  // they may be lower than those that were forgotten
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

LaneTable::Entry GroupEngine::enter_counted(TaskCore& task) {
  const std::string_view key = task.group_key();
  Lane& lane = pin(key);
  LaneTable::Entry entry{LaneTable::Entered::kFull};
  bool full = false;
  {
    MutexLock lock(admission_->mutex);
    full = admission_->full();
    if (!full) {
      const bool takes_place = admission_->limit_reached();
      const std::uint64_t before = lane.could_run();
      task.set_has_place(takes_place);
      entry = LaneTable::enter(lane, task.waiter(), is_ranked(task));
      if (entry.entered == LaneTable::Entered::kIn) {
        admission_->could_run += lane.could_run() - before;
        if (takes_place) ++admission_->places;
      } else {
        task.set_has_place(false);
      }
    }
  }
  table_.unpin(lane);
  if (full) table_.count_outside(key, LaneTable::hash(key), {.refused = 1});
  return entry;
}

void GroupEngine::give_up_place(TaskCore& task) {
  if (admission_ == nullptr || !task.has_place()) return;
  MutexLock lock(admission_->mutex);
  --admission_->places;
  task.set_has_place(false);
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
  if (what == RejectionPolicy::kAbort && error == nullptr) {
    error = std::make_exception_ptr(rejected_error(task));
  }
  end_unrun(task, TaskStatus::kRejected, error);
  return false;
}

void GroupEngine::run_by_caller(TaskCore& task) {
  begin_use();  // until it has ended, which may be later and elsewhere
  task.set_lane(nullptr);
  TaskStatus status{};
  if (run_task(task, 0, scheduler_.now(), status)) end_of_callers(task, status);
}

void GroupEngine::end_of_callers(TaskCore& task, TaskStatus status) {
  // It was counted as refused; that is not how it ended.
  LaneCounts counts{.entered = 1, .refused = static_cast<std::uint64_t>(-1)};
  if (status == TaskStatus::kSuccess) counts.succeeded = 1;
  if (status == TaskStatus::kFailed) counts.failed = 1;
  if (status == TaskStatus::kCancelled) counts.cancelled = 1;
  table_.count_outside(task.group_key(), LaneTable::hash(task.group_key()), counts);
  complete(task, status, scheduler_.now());
  end_use();
}

// ---- while a task runs, and its end

TimePoint GroupEngine::read_clock(const Turn& turn) const {
  return turn.clock != nullptr ? turn.clock->now() : scheduler_.now();
}

void GroupEngine::run_turn(Lane& lane, Turn& turn) {
  const Use use(*this, shared_);
  // relaxed: a hint; hold_turn() looks again.
  if (paused_.load(std::memory_order_relaxed) && hold_turn(lane)) return;
  if (gate_ && !gate_->enter(lane)) return;
  const std::size_t hash = lane.hash();
  LaneTake taken = lane.take();
  if (taken.post_turn) scheduler_.post(lane);
  if (taken.waiter == nullptr) {
    give_up_lane(&lane, hash, taken);
    return;
  }
  const TimePoint began = read_clock(turn);
  TimePoint started = began;
  Lane* current = &lane;
  for (int left = kTurnTasks - 1;; --left) {
    TaskCore& task = TaskCore::of(*taken.waiter);
    task.set_lane(current);
    if (taken.units > 1) [[unlikely]]
      task.extras().units = taken.units;
    TaskStatus status{};
    if (!run_task(task, taken.number, started, status)) return;  // suspended: it keeps its permits
    const TimePoint ended = read_clock(turn);
    current = task.lane();  // another one with the same key, if it waited and came back
    taken = leave_lane(task, status, goes_on(left, began, ended), &turn);
    complete(task, status, ended);
    if (taken.waiter == nullptr) return;
    // One that has come since may not seem to have begun before.
    const bool at_once = taken.stood_in_line && policy_.listener == nullptr;
    started = at_once ? ended : read_clock(turn);
  }
}

bool GroupEngine::goes_on(int tasks_left, TimePoint began, TimePoint now) const {
  return tasks_left > 0 && now - began < kTurnTime && !(gate_ && gate_->contended()) &&
         !paused_.load(std::memory_order_relaxed);
}

// True if it has ended. REQUIRES: its lane is set.
bool GroupEngine::run_task(TaskCore& task, std::uint64_t number, TimePoint now,
                           TaskStatus& status) {
  if (task.operations().is_return) return task.operations().run(task, status);
  task.set_started(now);
  stop_expiry(task);
  give_up_place(task);
  const bool can_stop = task.operations().can_stop;
  if (can_stop) {
    stoppable_.add(task);
    const Lane* lane = task.lane();
    if (lane != nullptr && lane->stop_wanted(number)) task.operations().request_stop(task);
  }
  tell_listener([&](auto& listener) { listener.on_started(task.group_key(), task.task_id()); });
  bool ended = false;
  {
    const detail::CurrentTaskScope scope(&task);
    ended = task.operations().run(task, status);
  }
  if (ended && can_stop) stoppable_.remove(task);
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
  if (left.waiter == nullptr) give_up_lane(&lane, hash, left);
  return left;
}

// Whether no code of the user's, which might take long, runs between here and its very end.
bool GroupEngine::ends_silently(const TaskCore& task, TaskStatus status) const {
  return policy_.listener == nullptr && status == TaskStatus::kSuccess &&
         task.operations().value_is_trivial;
}

// The lane may be gone already, unless it is known to have its turn out.
void GroupEngine::give_up_lane(const Lane* lane, std::size_t hash, const LaneTake& left) {
  leave_gate();
  if (left.idle) table_.seen_idle(lane, hash);
  somebody_left();
}

void GroupEngine::leave_gate() {
  if (gate_ == nullptr) return;
  if (Lane* next = gate_->leave()) scheduler_.post(*next);
}

void GroupEngine::ended_after_suspension(TaskCore& task) noexcept {
  const Use use(*this);  // the thread may be anybody's
  stoppable_.remove(task);
  const TaskStatus status = task.operations().collect(task);
  if (task.lane() == nullptr) {
    end_of_callers(task, status);
    return;
  }
  const TimePoint ended = scheduler_.now();
  leave_lane(task, status, /*go_on=*/false, nullptr);
  complete(task, status, ended);
}

void GroupEngine::complete(TaskCore& task, TaskStatus status, TimePoint ended) noexcept {
  tell_listener([&](auto& listener) {
    TaskOutcome outcome{
        .status = status, .error = nullptr, .started = task.started(), .ended = ended};
    if (status != TaskStatus::kSuccess) outcome.error = task.operations().error(task);
    listener.on_completed(task.group_key(), task.task_id(), outcome);
  });
  task.publish(status, ended);
}

void GroupEngine::end_unrun(TaskCore& task, TaskStatus status, std::exception_ptr error) noexcept {
  stop_expiry(task);
  give_up_place(task);
  task.operations().drop(task, std::move(error));
  const TimePoint now = scheduler_.now();
  task.set_started(now);
  if (status != TaskStatus::kRejected) {
    complete(task, status, now);
    return;
  }
  tell_listener([&](auto& listener) { listener.on_rejected(task.group_key(), task.task_id()); });
  task.publish(status, now);
}

// ---- from outside

bool GroupEngine::cancel(TaskCore& task) {
  const Use use(*this);
  const std::string_view key = task.group_key();
  const std::size_t hash = LaneTable::hash(key);
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
  if (!withdraw(task, key, LaneTable::hash(key), /*expired=*/true)) return;
  end_unrun(task, TaskStatus::kExpired,
            std::make_exception_ptr(ExpiredError(
                name_of(task) + " expired: it could not begin in time; give it longer, or submit "
                                "less to its group")));
}

bool GroupEngine::withdraw(TaskCore& task, std::string_view key, std::size_t hash, bool expired) {
  Lane* lane = table_.pin_existing(key, hash);
  if (lane == nullptr) return false;
  const Lane::Withdrawn withdrawn =
      change(*lane, [&] { return lane->withdraw(task.waiter(), expired); });
  if (withdrawn.post_turn) scheduler_.post(*lane);
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
    WaitGraph::instance().look_again();
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
