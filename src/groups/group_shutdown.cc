// The end of a group, of all groups, and of the engine itself; and waiting until nobody is inside.
#include <utility>

#include "groups/group_engine.h"
#include "runtime/current_task.h"

namespace keyway {

using detail::TaskCore;

namespace {

// Who comes back for a permit belongs to a task that has begun: it goes on.
bool stays_when_drained(Waiter& waiter) { return TaskCore::of(waiter).operations().is_return; }

}  // namespace

void GroupEngine::shutdown_group(std::string_view key) {
  const Use use(*this);
  if (Lane* lane = table_.pin_existing(key, LaneTable::hash(key))) {
    reject_chain(change(*lane, [&] { return lane->drain(stays_when_drained); }),
                 RejectionReason::kGroupShutdown);
    findable_.request_stop([&](const TaskCore& task) { return task.group_key() == key; });
    made_room(*lane);
    table_.unpin(*lane);
  }
}

void GroupEngine::stop_taking() {
  table_.close();
  let_nobody_in_any_more();
}

void GroupEngine::shutdown() {
  stop_taking();
  for (Lane* lane : table_.pin_all()) {
    reject_chain(change(*lane, [&] { return lane->drain(stays_when_drained); }),
                 RejectionReason::kShutdown);
    table_.unpin(*lane);
  }
  findable_.request_stop([](const TaskCore&) { return true; });
  resume_everything();  // turns that are held back would never end
  stop_waiting_for_tokens();
}

void GroupEngine::reject_chain(Waiter* first, RejectionReason reason) {
  while (first != nullptr) {
    TaskCore& task = TaskCore::of(*std::exchange(first, first->next));
    end_unrun(task, TaskStatus::kRejected, nullptr, reason);
  }
}

std::optional<TimePoint> GroupEngine::deadline_after(Duration timeout) const {
  const TimePoint now = scheduler_.now();
  if (timeout > TimePoint::max() - now) return std::nullopt;
  return now + timeout;
}

bool GroupEngine::shutdown(Duration timeout) {
  stop_taking();
  if (wait_until_quiet(deadline_after(timeout))) return true;
  shutdown();
  // A task that waited for its own end would wait for ever.
  if (!runs_a_task_here()) wait_until_quiet(std::nullopt);
  return false;
}

bool GroupEngine::drain(Duration timeout) {
  if (runs_a_task_here()) {
    throw Exception({ErrorCode::kWaitCycle,
                     "a task cannot wait until its executor has no tasks; drain() from outside"});
  }
  return wait_until_quiet(deadline_after(timeout));
}

bool GroupEngine::drain_group(std::string_view key, Duration timeout) {
  if (runs_a_task_here(key)) {
    throw Exception({ErrorCode::kWaitCycle, "a task cannot wait until its group \"" +
                                                std::string(key) +
                                                "\" has no tasks; drain_group() from outside"});
  }
  return wait_until([&] { return group_quiet(key); }, deadline_after(timeout));
}

bool GroupEngine::runs_a_task_here(std::optional<std::string_view> key) const {
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    const TaskCore* task = scope->task();
    if (task != nullptr && &task->owner() == this && (!key || task->group_key() == *key)) {
      return true;
    }
  }
  return false;
}

void GroupEngine::close() {
  KEYWAY_CHECK(!runs_a_task_here(), "an executor cannot be destroyed by one of its own tasks");
  shutdown();
  wait_until_quiet(std::nullopt);
  scheduler_.remove_idle_listener(*this);
}

bool GroupEngine::wait_until_quiet(std::optional<TimePoint> deadline) {
  if (!wait_until([this] { return quiet(); }, deadline)) return false;
  // Those who left their lane may still be on their way out.
  if (!shared_) scheduler_.wait_for_turns_in_progress();
  return true;
}

template <class Condition>
bool GroupEngine::wait_until(Condition condition, std::optional<TimePoint> deadline) {
  scheduler_.begin_blocking();
  bool holds = false;
  while (true) {
    const std::uint64_t hints = quiet_hints();
    waiting_for_quiet_.store(true, std::memory_order_seq_cst);
    holds = condition();
    if (holds || (deadline && scheduler_.now() >= *deadline)) break;
    if (scheduler_.run_one()) continue;
    if (scheduler_.has_no_threads()) {
      KEYWAY_CHECK(deadline, "tasks are left, but the simulation has nothing more to run");
      break;
    }
    MutexLock lock(quiet_mutex_);
    while (quiet_hints_ == hints && !(deadline && scheduler_.now() >= *deadline)) {
      if (deadline) {
        quiet_changed_.wait_until(quiet_mutex_, *deadline);
      } else {
        quiet_changed_.wait(quiet_mutex_);
      }
    }
  }
  scheduler_.end_blocking();
  return holds;
}

// A task of the group that waits for another may be in no lane; but if none does, and none has begun
// to meanwhile, the lane shows them all.
bool GroupEngine::group_quiet(std::string_view key) {
  std::uint64_t begun = 0;
  {
    MutexLock lock(waits_mutex_);
    begun = waits_begun_;
    for (const auto& [task, waits] : waits_) {
      if (task->group_key() == key) return false;
    }
  }
  const bool idle = table_.with_lane(key, LaneTable::hash(key),
                                     [](Lane* lane) { return lane == nullptr || lane->idle(); });
  if (!idle) return false;
  MutexLock lock(waits_mutex_);
  return waits_begun_ == begun;
}

// A task that waits for another may be in no lane, but then it is a use. So no use before, none begun
// meanwhile, and no lane with anybody inside: nobody is there.
bool GroupEngine::quiet() {
  std::uint64_t begun = 0;
  {
    MutexLock lock(quiet_mutex_);
    if (uses_ > 0) return false;
    begun = uses_begun_;
  }
  if (!table_.all_of([](Lane& lane) { return lane.idle(); })) return false;
  MutexLock lock(quiet_mutex_);
  return uses_ == 0 && uses_begun_ == begun;
}

void GroupEngine::begin_use() {
  MutexLock lock(quiet_mutex_);
  ++uses_;
  ++uses_begun_;
}

// All under the mutex: once it is left, the engine may be gone.
void GroupEngine::end_use() {
  MutexLock lock(quiet_mutex_);
  --uses_;
  ++quiet_hints_;
  quiet_changed_.notify_all();
}

// Called after each step that may leave the engine quiet. Whoever waits for that says so before it
// looks, and whoever leaves looks for it afterwards: one of them sees the other.
void GroupEngine::somebody_left() {
  if (!waiting_for_quiet_.load(std::memory_order_seq_cst)) [[likely]]
    return;
  waiting_for_quiet_.store(false, std::memory_order_seq_cst);
  MutexLock lock(quiet_mutex_);
  ++quiet_hints_;
  quiet_changed_.notify_all();
}

}  // namespace keyway
