#include "groups/waits.h"

#include <utility>

#include "keyway/detail/block_pool.h"
#include "keyway/detail/operation.h"
#include "runtime/thread_context.h"
#include "runtime/wait_graph.h"

namespace keyway {

using detail::TaskCore;

// Stands in a lane's queue for a task that needs its permits again. It never runs: see came_back().
class Waits::Returning final : public TaskCore {
 public:
  static Returning& make(OfTask& task) {
    const TaskCore& waiter = task.waiter;
    void* block = detail::allocate_block(
        block_bytes(kOperations, waiter.group_key().size(), waiter.has_extras()));
    auto& made = *new (block) Returning(task);
    if (waiter.has_extras()) {
      made.add_extras();
      made.extras().cost = waiter.extras().cost;
    }
    return made;
  }
  static OfTask& task_of(TaskCore& core) { return static_cast<Returning&>(core).task_; }

 private:
  explicit Returning(OfTask& task)
      : TaskCore(kOperations, task.waiter.owner(), 1, task.waiter.group_key(), {}), task_(task) {}

  static const detail::TaskOperations kOperations;

  OfTask& task_;
};

constexpr detail::TaskOperations Waits::Returning::kOperations{
    .size_bytes = sizeof(Returning),
    .is_return = true,
    .is_coroutine = false,
    .run = nullptr,
    .collect = nullptr,
    .drop = nullptr,
    .value = nullptr,
    .error = nullptr,
    .destroy = [](TaskCore&, TaskStatus) {},
    .over_aligned = false,
    .can_stop = false,
    .value_is_silent = true,
    .request_stop = nullptr,
};

// One wait of a task. Of a rest or a sleep, the edge is not linked.
class Waits::GroupWait final : public detail::TaskWait {
 public:
  GroupWait(OfTask& task, const Pause& pause) : task_(task), pause_(pause) {}
  ~GroupWait() override {
    if (linked_) WaitGraph::instance().end(edge_);
  }
  GroupWait(const GroupWait&) = delete;
  GroupWait& operator=(const GroupWait&) = delete;

  Result<void> begin(const detail::IntendedWait& wait) {
    edge_.holds_permit = !pause_.in_own_lane;
    edge_.gives_back = pause_.in_own_lane;
    edge_.leaves_gate = task_.waits.dispatch_.has_gate();
    edge_.can_give_back = true;
    Result<void> begun = WaitGraph::instance().begin(edge_, &task_.waiter, wait);
    linked_ = begun.ok();
    return begun;
  }

  void end(detail::Wakeup& wakeup) noexcept override {
    const bool holds_again = linked_ && WaitGraph::instance().set_over(edge_);
    // A waiter that is woken may destroy this object.
    task_.waits.end(task_, pause_, holds_again, wakeup);
  }

 private:
  OfTask& task_;
  const Pause pause_;
  WaitGraph::Edge edge_;
  bool linked_ = false;
};

Waits::OfTask& Waits::of(TaskCore& waiter) {
  std::unique_ptr<OfTask>& slot = tasks_[&waiter];
  if (slot == nullptr) slot = std::make_unique<OfTask>(*this, waiter);
  return *slot;
}

std::uint32_t Waits::wants_back(const TaskCore& task) {
  MutexLock lock(mutex_);
  const auto found = tasks_.find(&task);
  if (found == tasks_.end()) return 0;
  // A wait for a task of the same lane has given the permits back, or gives them back when no branch
  // runs.
  const OfTask& of = *found->second;
  const bool wants =
      of.lane_back || of.lane_wanted || of.open_in_lane > 0 || of.in_check_in_lane > 0;
  return wants ? task.units() : 0;
}

// ---- a wait begins

// The graph checks the wait before the task gives permits back, so a refused wait need not get them
// again. During the check, other checks already count on these permits.
Result<std::unique_ptr<detail::TaskWait>> Waits::begin(TaskCore& waiter,
                                                       const detail::IntendedWait& wait) {
  const bool in_own_lane = wait.task != nullptr && &wait.task->owner() == &waiter.owner() &&
                           waiter.group_key() == wait.task->group_key();
  bool lane_lost_room = false;  // not needed: the check of the wait sees the lane as it is now
  OfTask& task = begin_check(waiter, in_own_lane, lane_lost_room);
  const int below = wait.blocks ? ThreadContext::Starter::count(&waiter) : 0;
  const bool counts = wait.is_first && (wait.blocks || !wait.operation.is_confined());
  const Pause pause{.in_own_lane = in_own_lane,
                    .branches = counts ? 1 + below : 0,
                    .confined = !wait.blocks && wait.operation.is_confined()};
  auto begun = std::make_unique<GroupWait>(task, pause);
  const Result<void> linked = begun->begin(wait);
  Aftermath aftermath(scheduler_);
  if (linked) {
    accept(task, pause, aftermath);
  } else {
    MutexLock lock(mutex_);
    end_check(task, in_own_lane);
    forget_if_over(task);
  }
  // Unchecked waits may keep permits that other tasks of the lane need.
  if (wait.is_last_of_unchecked) intake_.room_shrank(waiter.group_key(), aftermath);
  if (!linked) return linked.error();
  return std::unique_ptr<detail::TaskWait>(std::move(begun));
}

std::unique_ptr<detail::TaskWait> Waits::begin_rest(TaskCore& waiter) {
  return begin_unlinked(waiter, {.kind = Pause::Kind::kRest});
}

std::unique_ptr<detail::TaskWait> Waits::begin_sleep(TaskCore& waiter, int branches) {
  return begin_unlinked(waiter, {.kind = Pause::Kind::kSleep, .branches = branches});
}

std::unique_ptr<detail::TaskWait> Waits::begin_unlinked(TaskCore& waiter, const Pause& pause) {
  bool lane_lost_room = false;
  OfTask& task = begin_check(waiter, /*in_own_lane=*/false, lane_lost_room);
  Aftermath aftermath(scheduler_);
  accept(task, pause, aftermath);
  if (lane_lost_room) intake_.room_shrank(waiter.group_key(), aftermath);
  return std::make_unique<GroupWait>(task, pause);
}

// `lane_lost_room`: see WaitGraph::leaves_again().
Waits::OfTask& Waits::begin_check(TaskCore& waiter, bool in_own_lane, bool& lane_lost_room) {
  OfTask* task = nullptr;
  bool leaves_again = false;
  {
    MutexLock lock(mutex_);
    task = &of(waiter);
    leaves_again = task->has_waits();
    ++task->in_check;
    if (in_own_lane) ++task->in_check_in_lane;
  }
  // This branch gives back again the permits that it got from another branch's wait. The check must
  // know.
  lane_lost_room = leaves_again && WaitGraph::instance().leaves_again(waiter);
  return *task;
}

void Waits::end_check(OfTask& task, bool in_own_lane) {
  --task.in_check;
  if (in_own_lane) --task.in_check_in_lane;
}

void Waits::accept(OfTask& task, const Pause& pause, Aftermath& aftermath) {
  bool leaves_gate = false;
  {
    MutexLock lock(mutex_);
    end_check(task, pause.in_own_lane);
    if (pause.kind != Pause::Kind::kSleep) ++task.open;
    if (pause.in_own_lane) ++task.open_in_lane;
    task.idle_branches += pause.branches;
    leaves_gate = give_back(task, aftermath);
  }
  let_others_in(task.waiter, leaves_gate, aftermath);
}

void Waits::branch_begins(TaskCore& waiter) {
  MutexLock lock(mutex_);
  ++of(waiter).branches;
}

// Tells the graph before the task gives the permits back: from then on, waits for this task depend
// on its return.
void Waits::branch_ends(TaskCore& waiter) noexcept {
  OfTask* task = nullptr;
  {
    MutexLock lock(mutex_);
    task = tasks_.at(&waiter).get();
    // While other branches wait, this one counts until the graph knows.
    if (!task->has_waits()) {
      --task->branches;
      forget_if_over(*task);
      return;
    }
  }
  const bool lane_lost_room = WaitGraph::instance().leaves_again(waiter);
  Aftermath aftermath(scheduler_);
  bool leaves_gate = false;
  {
    MutexLock lock(mutex_);
    --task->branches;
    leaves_gate = give_back(*task, aftermath);
    forget_if_over(*task);
  }
  let_others_in(waiter, leaves_gate, aftermath);
  if (lane_lost_room) intake_.room_shrank(waiter.group_key(), aftermath);
}

bool Waits::give_back(OfTask& task, Aftermath& aftermath) {
  if (task.open == 0 || task.runs()) return false;
  if ((task.open_in_lane > 0 || task.lane_wanted) && !std::exchange(task.lane_back, true)) {
    Lane& lane = *task.waiter.lane();
    if (intake_.change(lane, [&] { return lane.give_back(task.waiter.units()); })) {
      aftermath.post(lane);
    }
  }
  const bool leaves_gate = dispatch_.has_gate() && !std::exchange(task.gate_back, true);
  count(task);
  return leaves_gate;
}

// After give_back(), under no lock.
void Waits::let_others_in(TaskCore& waiter, bool leaves_gate, Aftermath& aftermath) {
  Lane& lane = *waiter.lane();
  if (leaves_gate) dispatch_.leave_gate(lane, aftermath);
  intake_.made_room(lane, aftermath);
}

// A waiting task that holds only its lane's permit does not count as able to run.
void Waits::count(OfTask& task) {
  const bool uncounted = task.gate_back && !task.lane_back && !task.returning;
  if (uncounted == task.uncounted) return;
  task.uncounted = uncounted;
  intake_.count_waiting(uncounted);
}

Runnable* Waits::give_back_permit(TaskCore& waiter) {
  MutexLock lock(mutex_);
  const auto found = tasks_.find(&waiter);
  if (found == tasks_.end()) return nullptr;  // its wait has just ended
  OfTask& task = *found->second;
  task.lane_wanted = true;
  if (task.runs()) return nullptr;
  if (std::exchange(task.lane_back, true)) return nullptr;
  count(task);
  Lane& lane = *waiter.lane();
  const bool post = intake_.change(lane, [&] { return lane.give_back(waiter.units()); });
  return post ? &lane : nullptr;
}

void Waits::forget_if_over(OfTask& task) {
  if (task.is_over()) tasks_.erase(&task.waiter);
}

// ---- a wait is over

// A task with several branches may have kept the permits that the wait was to give back. The graph hears
// of that, as of a return. `holds_again`: see WaitGraph::set_over().
void Waits::end(OfTask& task, const Pause& pause, bool holds_again, detail::Wakeup& wakeup) {
  Aftermath aftermath(scheduler_, Aftermath::By::kAnybody);
  const auto take_note = [&]() KEYWAY_REQUIRES(mutex_) {
    if (pause.kind != Pause::Kind::kSleep) --task.open;
    if (pause.in_own_lane) --task.open_in_lane;
    pause.confined ? aftermath.wake(wakeup) : task.over.push_back(&wakeup);
  };
  Next next = Next::kNothing;
  bool has_kept = false;
  {
    MutexLock lock(mutex_);
    task.idle_branches -= pause.branches;  // from now on the task gives no permits back
    const bool one_of_several = task.branches > 1 || pause.branches == 0;
    has_kept = task.has_permits() && one_of_several && pause.kind == Pause::Kind::kWait;
    if (has_kept) {
      begin_going_on(task);
      if (pause.branches == 0) --task.idle_branches;  // until the graph knows
    } else {
      take_note();
      if (pause.confined) return forget_if_over(task);
      if (task.has_permits()) return go_on(task, aftermath);
      next = begin_return(task);
    }
  }
  if (!has_kept) return return_by(task, next, aftermath);
  const bool is_news = WaitGraph::instance().came_back(task.waiter, task.waiter.units());
  bool still_waits = false;
  {
    MutexLock lock(mutex_);
    take_note();
    if (pause.branches == 0) ++task.idle_branches;
    still_waits = end_going_on(task, aftermath);
  }
  if ((is_news || holds_again) && still_waits)
    intake_.room_shrank(task.waiter.group_key(), aftermath);
}

// Until end_going_on() the task stays in tasks_. What give_back_permit() wants from now on is not
// forgotten.
void Waits::begin_going_on(OfTask& task) {
  ++task.in_check;
  task.lane_wanted = false;
}

// The graph knows that the task has its permits again. True: it still waits in another branch. Waits
// that were accepted while the permits were away may need them to end, so the caller then calls
// room_shrank(), before `aftermath` wakes the branches.
bool Waits::end_going_on(OfTask& task, Aftermath& aftermath) {
  --task.in_check;
  task.lane_back = false;
  task.gate_back = false;
  const bool still_waits = task.has_waits();
  go_on(task, aftermath);
  return still_waits;
}

// The task has its permits.
void Waits::go_on(OfTask& task, Aftermath& aftermath) {
  for (detail::Wakeup* wakeup : task.over) aftermath.wake(*wakeup);
  task.over.clear();
  task.returning = false;
  count(task);
  forget_if_over(task);
}

Waits::Next Waits::begin_return(OfTask& task) {
  if (std::exchange(task.returning, true)) return Next::kNothing;
  count(task);
  return task.lane_back ? Next::kEnterLane : Next::kEnterGate;
}

void Waits::return_by(OfTask& task, Next next, Aftermath& aftermath) {
  if (next == Next::kNothing) return;  // the task may be freed by now
  Lane& lane = *task.waiter.lane();
  if (next == Next::kEnterLane) {
    TaskCore& returning = Returning::make(task);
    const bool costly = Intake::is_costly(returning);
    table_.pin(lane);
    const Lane::Entered entered =
        intake_.change(lane, [&] { return lane.enter_again(returning.waiter()); });
    if (entered == Lane::Entered::kNeedsTurn) aftermath.post(lane);
    dispatch_.task_returned(lane, aftermath);
    if (costly && lane.take_need_grew()) intake_.room_shrank(lane.key(), aftermath);
    table_.unpin(lane);
  } else {
    dispatch_.pin_for_gate(lane);
    if (dispatch_.enter_gate_again(task)) has_global_permit(task, aftermath);
  }
}

// The worker that took `returning` holds the lane's permits and a global one, for the task.
void Waits::came_back(TaskCore& returning, std::uint32_t units) {
  Aftermath aftermath(scheduler_);
  OfTask& task = Returning::task_of(returning);
  returning.release();
  has_returned(task, units, aftermath);
}

// The gate has given `task` a permit.
void Waits::has_global_permit(OfTask& task, Aftermath& aftermath) {
  has_returned(task, task.waiter.units(), aftermath);
}

void Waits::has_returned(OfTask& task, std::uint32_t units, Aftermath& aftermath) {
  const TaskCore& waiter = task.waiter;  // it lives at least until `aftermath` wakes its branches
  {
    MutexLock lock(mutex_);
    begin_going_on(task);
  }
  const bool lane_was_away = WaitGraph::instance().came_back(waiter, units);
  bool still_waits = false;
  {
    MutexLock lock(mutex_);
    if (waiter.has_extras()) waiter.extras().units = units;
    still_waits = end_going_on(task, aftermath);
  }
  if (still_waits && lane_was_away) intake_.room_shrank(waiter.group_key(), aftermath);
}

}  // namespace keyway
