#include "groups/waits.h"

#include <utility>

#include "keyway/detail/block_pool.h"
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
    .copy = nullptr,
    .error = nullptr,
    .destroy = [](TaskCore&, TaskStatus) {},
    .over_aligned = false,
    .can_stop = false,
    .value_is_silent = true,
    .request_stop = nullptr,
};

namespace {

// Links the edge of a wait.
Result<void> begin_edge(WaitGraph::Edge& edge, TaskCore& waiter, const detail::IntendedWait& wait) {
  edge.operation = &wait.operation;
  edge.waiter = &waiter;
  edge.task = wait.task;
  edge.lock = wait.lock;
  edge.work = wait.work;
  edge.bounded = wait.bounded;
  if (wait.blocks) edge.block_this_thread();
  if (wait.can_refuse) return WaitGraph::instance().begin(edge);
  if (WaitGraph::instance().begin_unchecked(edge)) return {};
  return Error{ErrorCode::kInvalidArgument, "the wait is over before it begins"};
}

}  // namespace

// One wait of a task. A rest is a GroupWait whose edge is not linked.
class Waits::GroupWait final : public detail::TaskWait {
 public:
  GroupWait(OfTask& task, bool in_own_lane) : task_(task), in_own_lane_(in_own_lane) {}
  ~GroupWait() override {
    if (linked_) WaitGraph::instance().end(edge_);
  }
  GroupWait(const GroupWait&) = delete;
  GroupWait& operator=(const GroupWait&) = delete;

  Result<void> begin(const detail::IntendedWait& wait) {
    edge_.holds_permit = !in_own_lane_;
    edge_.gives_back = in_own_lane_;
    edge_.leaves_gate = task_.waits.dispatch_.has_gate();
    edge_.can_give_back = true;
    Result<void> begun = begin_edge(edge_, task_.waiter, wait);
    linked_ = begun.ok();
    return begun;
  }

  void end(detail::Wakeup& wakeup) noexcept override {
    if (linked_) WaitGraph::instance().set_over(edge_);
    task_.waits.end(task_, in_own_lane_, wakeup);  // a waiter that is woken may destroy this object
  }

 private:
  OfTask& task_;
  const bool in_own_lane_;
  WaitGraph::Edge edge_;
  bool linked_ = false;
};

// A wait of a task without permits: its submitter runs it, or it is ending.
class Waits::PermitlessWait final : public detail::TaskWait {
 public:
  Result<void> begin(TaskCore& waiter, const detail::IntendedWait& wait) {
    return begin_edge(edge_, waiter, wait);
  }

  // REQUIRES: begin() has succeeded.
  void end(detail::Wakeup& wakeup) noexcept override {
    WaitGraph::instance().end(edge_);
    wakeup.wake();  // a waiter that is woken may destroy this object
  }

 private:
  WaitGraph::Edge edge_;
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
  // A wait for a task of the same lane has given the permits back, or is about to.
  const OfTask& of = *found->second;
  return of.lane_back || of.open_in_lane > 0 || of.in_check_in_lane > 0 ? task.units() : 0;
}

// ---- a wait begins

// The graph checks the wait before the task gives permits back, so a refused wait need not get them
// again. During the check, other checks already count on these permits.
Result<std::unique_ptr<detail::TaskWait>> Waits::begin(TaskCore& waiter,
                                                       const detail::IntendedWait& wait) {
  if (!waiter.holds_permits()) {
    auto begun = std::make_unique<PermitlessWait>();
    if (Result<void> linked = begun->begin(waiter, wait); !linked) return linked.error();
    return std::unique_ptr<detail::TaskWait>(std::move(begun));
  }
  const bool in_own_lane = wait.task != nullptr && &wait.task->owner() == &waiter.owner() &&
                           waiter.group_key() == wait.task->group_key();
  OfTask& task = begin_check(waiter, in_own_lane);
  auto begun = std::make_unique<GroupWait>(task, in_own_lane);
  const Result<void> linked = begun->begin(wait);
  Aftermath aftermath(scheduler_);
  if (linked) {
    accept(task, in_own_lane, aftermath);
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
  OfTask& task = begin_check(waiter, /*in_own_lane=*/false);
  Aftermath aftermath(scheduler_);
  accept(task, /*in_own_lane=*/false, aftermath);
  return std::make_unique<GroupWait>(task, /*in_own_lane=*/false);
}

Waits::OfTask& Waits::begin_check(TaskCore& waiter, bool in_own_lane) {
  OfTask* task = nullptr;
  bool leaves_again = false;
  {
    MutexLock lock(mutex_);
    task = &of(waiter);
    ++task->in_check;
    if (in_own_lane) ++task->in_check_in_lane;
    leaves_again = task->open > 0;
  }
  // This branch gives back again the permits that it got from another branch's wait. The check must
  // know.
  if (leaves_again) WaitGraph::instance().leaves_again(waiter);
  return *task;
}

void Waits::end_check(OfTask& task, bool in_own_lane) {
  --task.in_check;
  if (in_own_lane) --task.in_check_in_lane;
}

void Waits::accept(OfTask& task, bool in_own_lane, Aftermath& aftermath) {
  bool leaves_gate = false;
  {
    MutexLock lock(mutex_);
    end_check(task, in_own_lane);
    ++task.open;
    if (in_own_lane) ++task.open_in_lane;
    leaves_gate = give_back(task, aftermath);
  }
  let_others_in(task.waiter, leaves_gate, aftermath);
}

// Tells the graph before the task gives the permits back: from then on, waits for this task depend
// on its return.
void Waits::branch_ends(TaskCore& waiter) noexcept {
  const auto may_give_back = [&]() KEYWAY_REQUIRES(mutex_) -> OfTask* {
    const auto found = tasks_.find(&waiter);
    if (found == tasks_.end()) return nullptr;
    OfTask* task = found->second.get();
    // A return to the lane stands in line for a global permit, so the task must not keep its own.
    const bool may = task->returning ? dispatch_.has_gate() && !task->gate_back : task->open > 0;
    return may ? task : nullptr;
  };
  {
    MutexLock lock(mutex_);
    if (may_give_back() == nullptr) return;
  }
  WaitGraph::instance().leaves_again(waiter);
  Aftermath aftermath(scheduler_);
  bool leaves_gate = false;
  {
    MutexLock lock(mutex_);
    OfTask* task = may_give_back();
    if (task == nullptr) return;
    leaves_gate = give_back(*task, aftermath);
  }
  let_others_in(waiter, leaves_gate, aftermath);
}

bool Waits::is_waiting(const TaskCore& task) {
  MutexLock lock(mutex_);
  return tasks_.contains(&task);
}

bool Waits::give_back(OfTask& task, Aftermath& aftermath) {
  if (task.open_in_lane > 0 && !std::exchange(task.lane_back, true)) {
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

void Waits::end(OfTask& task, bool in_own_lane, detail::Wakeup& wakeup) {
  Aftermath aftermath(scheduler_, Aftermath::By::kAnybody);
  Next next = Next::kNothing;
  {
    MutexLock lock(mutex_);
    --task.open;
    if (in_own_lane) --task.open_in_lane;
    task.over.push_back(&wakeup);
    if (task.has_permits()) return go_on(task, aftermath);
    next = begin_return(task);
  }
  return_by(task, next, aftermath);
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
        intake_.change(lane, [&] { return lane.enter_in_front(returning.waiter()); });
    if (entered == Lane::Entered::kNeedsTurn) aftermath.post(lane);
    dispatch_.task_returned(lane, aftermath);
    if (costly && lane.take_need_grew()) intake_.room_shrank(lane.key(), aftermath);
    table_.unpin(lane);
  } else {
    dispatch_.pin_for_gate(lane);
    if (dispatch_.enter_gate_again(task)) {
      if (Lane* left = has_global_permit(task, aftermath)) dispatch_.leave_gate(*left, aftermath);
    }
  }
}

// The worker that took `returning` holds the lane's permits and a global one, for the task.
void Waits::came_back(TaskCore& returning, std::uint32_t units) {
  Aftermath aftermath(scheduler_);
  OfTask& task = Returning::task_of(returning);
  const TaskCore& waiter = task.waiter;  // it lives at least until `aftermath` wakes its branches
  returning.release();
  WaitGraph::instance().came_back(waiter, units);
  bool still_waits = false;
  bool has_two = false;
  {
    MutexLock lock(mutex_);
    if (waiter.has_extras()) waiter.extras().units = units;
    task.lane_back = false;
    has_two = dispatch_.has_gate() && !std::exchange(task.gate_back, false);
    still_waits = task.open > 0;
    go_on(task, aftermath);
  }
  // The task came back before, for another branch, and only lent its lane's permit again.
  if (has_two) dispatch_.leave_gate(*waiter.lane(), aftermath);
  // Waits that were accepted while the permit was away may need it to end, and another branch of
  // this task may wait for them.
  if (still_waits) intake_.room_shrank(waiter.group_key(), aftermath);
}

// The gate has given `task` a permit. If the lane's permit was given back meanwhile, the task
// enters its lane, and the caller calls leave_gate() with the returned lane.
Lane* Waits::has_global_permit(OfTask& task, Aftermath& aftermath) {
  Lane& lane = *task.waiter.lane();
  WaitGraph::instance().came_back_through_gate(task.waiter);
  {
    MutexLock lock(mutex_);
    if (!task.lane_back) {
      task.gate_back = false;
      go_on(task, aftermath);
      return nullptr;
    }
  }
  return_by(task, Next::kEnterLane, aftermath);
  return &lane;
}

}  // namespace keyway
