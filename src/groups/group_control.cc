// Control of a running executor: limits, pause, drain, shutdown, statistics.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/quoted.h"
#include "groups/blocked_wait.h"
#include "groups/group_engine.h"
#include "runtime/current_task.h"
#include "runtime/time_after.h"

namespace keyway {

using detail::TaskCore;

namespace {

// How long an adaptive limit outlives the last task of its group.
constexpr auto kLearntIsKept = std::chrono::minutes(1);

// A task that returns from a wait has begun, so a shutdown does not reject it.
bool stays_when_drained(Waiter& waiter) { return TaskCore::of(waiter).operations().is_return; }

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

}  // namespace

// ---- limits

LaneRank GroupEngine::rank_of(const Waiter& waiter) const {
  return Intake::rank_of(TaskCore::of(waiter));
}

std::unique_ptr<LaneExtension> GroupEngine::extend(Lane& lane) {
  if (!has_states_) return nullptr;
  return std::make_unique<GroupState>(dispatch_, lane, policy_.resolve_shares(lane.key()),
                                      scheduler_);
}

// Stores the limits before it looks for the lane: see LaneTable::make().
Result<void> GroupEngine::set_limits(std::string_view key, const GroupLimits& limits) {
  if (Result<void> changed = limits_.change(key, limits); !changed) return changed;
  if (Lane* lane = table_.pin_existing(key, LaneTable::hash(key))) {
    Aftermath aftermath(scheduler_);
    intake_.update_limits(*lane, aftermath);
    table_.unpin(*lane);
  }
  return {};
}

Result<void> GroupEngine::set_global_limit(int limit) {
  if (limit < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "global_max_in_flight is " + std::to_string(limit) + "; it must be at least 1"};
  }
  if (!dispatch_.has_gate()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the executor was made without a global limit, and does not count what runs; give "
                 "global_max_in_flight in its policy"};
  }
  Aftermath aftermath(scheduler_);
  const auto permits = static_cast<std::uint32_t>(limit);
  GlobalGate::Served served;
  {
    MutexLock lock(global_limit_mutex_);  // two callers leave the same limit in both
    intake_.set_global_limit(permits);
    served = dispatch_.set_global_limit(permits);
  }
  dispatch_.tell(served, aftermath);
  intake_.made_global_room(aftermath);
  return {};
}

void GroupEngine::evict_group(std::string_view key) {
  limits_.forget_changes(key);
  const std::size_t hash = LaneTable::hash(key);
  Lane* lane = table_.pin_existing(key, hash);
  if (lane == nullptr) return;
  {
    Aftermath aftermath(scheduler_);
    intake_.update_limits(*lane, aftermath);
  }
  table_.unpin(*lane);
  table_.forget_if_idle(lane, hash);
}

// REQUIRES: a task of the lane holds its permit, so the lane is not freed.
void GroupEngine::adapt(Lane& lane, Duration took, TimePoint now) {
  GroupState& state = GroupState::of(lane);
  const auto running = static_cast<int>(lane.counts().running);
  Lane::Changed changed;
  {
    // Held until the lane has the limit: it gets the limits in the order in which they were found.
    MutexLock lock(state.mutex);
    const auto found = static_cast<std::uint32_t>(state.adaptive->on_completed(took, running, now));
    const std::uint32_t limit = std::min(found, state.most_in_flight);
    state.adaptive_until = now + kLearntIsKept;
    if (limit == std::exchange(state.learnt, limit)) return;
    changed = intake_.set_limits(lane, {.running = limit}, LimitPart::kRunning);
  }
  Aftermath aftermath(scheduler_);
  intake_.limits_changed(lane, changed, aftermath);
}

// ---- pause

void GroupEngine::pause_group(std::string_view key) {
  Aftermath aftermath(scheduler_);
  Lane& lane = intake_.pin(key);
  bool is_new = false;
  {
    MutexLock lock(paused_mutex_);
    is_new = !no_more_pauses_ && paused_groups_.try_emplace(std::string(key), &lane).second;
    if (is_new) intake_.change(lane, [&] { return lane.set_paused(true); });
  }
  intake_.made_room(lane, aftermath);  // for tasks of other groups that the global limit holds back
  if (!is_new) table_.unpin(lane);
}

void GroupEngine::resume_group(std::string_view key) {
  Aftermath aftermath(scheduler_);
  Lane* lane = nullptr;
  {
    MutexLock lock(paused_mutex_);
    const auto found = paused_groups_.find(key);
    if (found == paused_groups_.end()) return;
    lane = found->second;
    paused_groups_.erase(found);
    if (intake_.change(*lane, [&] { return lane->set_paused(false); })) aftermath.post(*lane);
  }
  intake_.made_room(*lane, aftermath);
  table_.unpin(*lane);
}

void GroupEngine::resume() {
  Aftermath aftermath(scheduler_);
  dispatch_.resume(aftermath);
}

void GroupEngine::end_rates() {
  Aftermath aftermath(scheduler_);
  dispatch_.end_rates(aftermath);
}

void GroupEngine::resume_everything(Aftermath& aftermath) {
  std::vector<std::string> keys;
  {
    MutexLock lock(paused_mutex_);
    no_more_pauses_ = true;
    for (const auto& [key, lane] : paused_groups_) keys.push_back(key);
  }
  for (const std::string& key : keys) resume_group(key);
  dispatch_.end_pauses(aftermath);
}

// ---- the end

void GroupEngine::reject_chain(Waiter* first, RejectionReason reason, std::vector<Ending>& endings,
                               Aftermath& aftermath) {
  while (first != nullptr) {
    TaskCore& task = TaskCore::of(*std::exchange(first, first->next));
    endings.push_back(unrun(task, TaskStatus::kRejected, nullptr, reason, aftermath));
  }
}

void GroupEngine::shutdown_group(std::string_view key) {
  const QuietWatch::Use use(quiet_);
  Lane* lane = table_.pin_existing(key, LaneTable::hash(key));
  if (lane == nullptr) return;
  std::vector<Ending> endings;
  {
    Aftermath aftermath(scheduler_);
    Waiter* drained = intake_.change(*lane, [&] { return lane->drain(stays_when_drained); });
    reject_chain(drained, RejectionReason::kGroupShutdown, endings, aftermath);
    intake_.made_room(*lane, aftermath);
    quiet_.changed();
  }
  table_.unpin(*lane);
  end_drained(std::move(endings), key);
}

// Also asks the running tasks of the group, or all, to stop. A stop callback is user code, and may wait for a drained
// task, or for another task that is to stop: so one queue has all of them, and helpers go on while a callback blocks.
void GroupEngine::end_drained(std::vector<Ending> endings, std::optional<std::string_view> key) {
  std::vector<Ending> all;
  for (detail::CoreReference& task : findable_.find(key)) {
    all.push_back({.task = task.release(), .asks_to_stop = true});
  }
  std::ranges::move(endings, std::back_inserter(all));
  endings_.tell(std::move(all));
}

void GroupEngine::stop_taking() {
  const QuietWatch::Use use(quiet_);
  endings_.tell(close_intake());
}

// Returns the endings of the tasks that waited for room.
std::vector<Ending> GroupEngine::close_intake() {
  table_.close();
  std::vector<Ending> endings;
  {
    Aftermath aftermath(scheduler_);
    for (const RoomLine::Entry& entry : intake_.stop_all()) {
      table_.unpin(*entry.lane);
      entry.task->set_awaits_room(false);
      count_outside(*entry.task, {.refused = 1});
      endings.push_back(unrun(*entry.task, TaskStatus::kRejected, nullptr,
                              RejectionReason::kShutdown, aftermath));
      aftermath.tell(*entry.waiter, false);
    }
  }
  return endings;
}

void GroupEngine::shutdown() {
  const QuietWatch::Use use(quiet_);
  stop_taking();
  stops_all_.store(true, std::memory_order_relaxed);  // see run_task()
  std::vector<Ending> endings;
  {
    Aftermath aftermath(scheduler_);
    for (Lane* lane : table_.pin_all()) {
      reject_chain(intake_.change(*lane, [&] { return lane->drain(stays_when_drained); }),
                   RejectionReason::kShutdown, endings, aftermath);
      table_.unpin(*lane);
    }
    resume_everything(aftermath);  // a held turn would never end
    dispatch_.end_rates(aftermath);
    quiet_.changed();
  }
  end_drained(std::move(endings), std::nullopt);
}

std::optional<TimePoint> GroupEngine::deadline_after(Duration timeout) const {
  const TimePoint deadline = time_after(scheduler_.now(), timeout);
  return bound_of(&deadline) != nullptr ? std::optional(deadline) : std::nullopt;
}

bool GroupEngine::shutdown(Duration timeout) {
  stop_taking();
  // A task cannot wait for its own end.
  if (runs_a_task_here()) {
    shutdown();
    return false;
  }
  // The WaitGraph refuses the wait if a task depends on the calling thread, for example on the end
  // of a task whose listener calls this. Then shutdown() returns without waiting.
  const std::optional<TimePoint> deadline = deadline_after(timeout);
  if (wait_until_quiet(deadline ? &*deadline : nullptr).value_or(false)) return true;
  shutdown();
  static_cast<void>(wait_until_quiet(nullptr));
  return false;
}

// All tasks of an engine, or of one group, as the target of a wait.
class GroupEngine::AllTasks final : public WantedWork {
 public:
  explicit AllTasks(GroupEngine& engine, std::optional<std::string_view> key = std::nullopt)
      : engine_(engine), key_(key) {}
  // Without tasks the wait needs no thread, and is over: the graph counts on that, so tasks that are
  // submitted later do not make it go on.
  Scheduler* scheduler() const override {
    if (!is_over()) return &engine_.scheduler_;
    // release: pairs with is_over(), so the waiting thread sees what the tasks wrote.
    counts_as_over_.store(true, std::memory_order_release);
    return nullptr;
  }
  bool includes(const TaskCore* task, const WantedWork* wanted) const override {
    if (task == nullptr || &task->owner() != &engine_) return false;
    if (key_) return !task->ending() && task->group_key() == *key_;
    // The wait includes running listeners, but not listeners that drain this engine.
    return !task->ending() || wanted == nullptr || wanted->all_tasks_of() != &engine_;
  }
  std::array<Scope, 2> scopes() const override {
    return {{{.owner = &engine_, .key = key_.value_or(std::string_view())}}};
  }
  const void* all_tasks_of() const override { return key_ ? nullptr : &engine_; }
  // Whether there are no tasks, or were none when the graph asked.
  bool is_over() const {
    if (counts_as_over_.load(std::memory_order_acquire)) return true;
    LaneTable& table = engine_.table_;
    if (key_) {
      return table.with_lane(*key_, LaneTable::hash(*key_),
                             [](Lane* lane) { return lane == nullptr || lane->empty(); });
    }
    const auto lanes_are_empty = [&] { return table.empty(); };
    return engine_.quiet_.is_quiet(lanes_are_empty, /*strict=*/false);
  }
  std::string name() const override {
    if (key_) return "all tasks of group " + quoted(*key_);
    return "all tasks of an executor";
  }
  const char* how_to_wait_otherwise() const override { return kWaitElsewhere; }

 private:
  GroupEngine& engine_;
  const std::optional<std::string_view> key_;
  mutable detail::Atomic<bool> counts_as_over_{false};
};

void GroupEngine::close() {
  KEYWAY_CHECK(!is_on_a_stack_here(),
               "an executor cannot be destroyed by one of its own tasks, nor by a listener, a "
               "rejection handler or a "
               "destructor of captures that it calls");
  shutdown();
  const auto lanes_are_idle = [&] { return table_.all_of([](Lane& lane) { return lane.idle(); }); };
  const auto is_quiet = [&] { return quiet_.is_quiet(lanes_are_idle, /*strict=*/true); };
  const AllTasks all(*this);
  BlockedWait wait;
  if (!is_quiet()) {
    if (const Result<void> begun = wait.begin(all, /*bounded=*/false); !begun) {
      const std::string message =
          "an executor is destroyed where its tasks can never end: " + begun.error().message +
          "; or destroy it elsewhere";
      KEYWAY_CHECK(begun.ok(), message.c_str());
    }
  }
  // A turn in progress may begin a use: its ended task may share its result with others.
  do {
    const WaitEnd end = quiet_.drain(is_quiet, nullptr, scheduler_);
    KEYWAY_CHECK(end == WaitEnd::kDone,
                 "tasks are left, but the simulation has nothing more to run");
    if (!shared_) scheduler_.wait_for_turns_in_progress();
  } while (!is_quiet());
  wait.end(&scheduler_);
  scheduler_.remove_idle_listener(*this);
  WaitGraph::instance().wait_for_searches();
}

// ---- waiting until there are no tasks

// Waits until the engine has no tasks. False: the deadline passed first. An error (kWaitCycle,
// kNoThread) if the wait could never end.
Result<bool> GroupEngine::wait_until_quiet(const TimePoint* deadline) {
  const AllTasks all(*this);
  BlockedWait wait;
  if (Result<void> begun = wait.begin(all, /*bounded=*/deadline != nullptr); !begun) {
    return begun.error();
  }
  WaitEnd end{};
  {
    // Covers wait_for_turns_in_progress(), too, so that two draining listeners do not wait for each
    // other's turns.
    const BlockingRegion region;
    const auto wait_for_quiet = [&] {
      end = quiet_.drain([&] { return all.is_over(); }, deadline, scheduler_);
      KEYWAY_CHECK(end != WaitEnd::kStuck,
                   "tasks are left, but the simulation has nothing more to run");
      return end == WaitEnd::kDone;
    };
    // Workers that have left their lane may still be inside run_turn(), and begin uses there.
    if (wait_for_quiet() && !shared_) {
      if (scheduler_.wait_for_turns_in_progress(deadline)) {
        wait_for_quiet();
      } else {
        end = WaitEnd::kTimedOut;
      }
    }
  }
  wait.end(&scheduler_);
  return end == WaitEnd::kDone;
}

bool GroupEngine::drain(Duration timeout) {
  if (runs_a_task_here()) {
    throw Exception({ErrorCode::kWaitCycle,
                     "a task cannot wait until its executor has no tasks; drain() from outside"});
  }
  const Result<bool> drained = try_drain(timeout);
  if (!drained) throw Exception(drained.error());
  return *drained;
}

Result<bool> GroupEngine::try_drain(Duration timeout) {
  const std::optional<TimePoint> deadline = deadline_after(timeout);
  return wait_until_quiet(deadline ? &*deadline : nullptr);
}

bool GroupEngine::drain_group(std::string_view key, Duration timeout) {
  if (runs_a_task_here(key)) {
    throw Exception({ErrorCode::kWaitCycle, "a task cannot wait until its group " + quoted(key) +
                                                " has no tasks; drain_group() from outside"});
  }
  const std::optional<TimePoint> deadline = deadline_after(timeout);
  const AllTasks all(*this, key);
  BlockedWait wait;
  if (Result<void> begun = wait.begin(all, deadline.has_value()); !begun) {
    throw Exception(begun.error());
  }
  const WaitEnd end =
      quiet_.wait_for([&] { return all.is_over(); }, deadline ? &*deadline : nullptr, scheduler_);
  KEYWAY_CHECK(end != WaitEnd::kStuck,
               "tasks are left, but the simulation has nothing more to run");
  wait.end(&scheduler_);
  return end == WaitEnd::kDone;
}

// Whether the calling thread runs or ends a task of this engine, perhaps below others.
bool GroupEngine::is_on_a_stack_here() const {
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    if (scope->task() != nullptr && &scope->task()->owner() == this) return true;
  }
  return false;
}

bool GroupEngine::runs_a_task_here(std::optional<std::string_view> key) const {
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    const TaskCore* task = scope->task();
    if (task == nullptr || &task->owner() != this || task->ending()) continue;
    if (!key || task->group_key() == *key) return true;
  }
  return false;
}

// ---- statistics

GroupStats GroupEngine::stats() { return stats_of(table_.counts()); }

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
