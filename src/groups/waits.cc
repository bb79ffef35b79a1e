#include "groups/waits.h"

#include <utility>

#include "keyway/detail/block_pool.h"
#include "runtime/wait_graph.h"

namespace keyway {

using detail::TaskCore;

// Stands in a lane's queue for a task that wants its permit back. It is never run: see came_back().
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

// One wait of a task; without an edge, a rest.
class Waits::GroupWait final : public detail::TaskWait {
 public:
  explicit GroupWait(OfTask& task) : task_(task) {}

  Result<void> begin(TaskCore& target, bool keeps_lane, bool bounded, bool blocks) {
    edge_.operation = &detail::Operation::current();
    edge_.waiter = &task_.waiter;
    edge_.task = &target;
    edge_.holds_permit = keeps_lane;
    edge_.can_give_back = true;
    edge_.bounded = bounded;
    edge_.thread = blocks ? Scheduler::current() : nullptr;
    Result<void> begun = WaitGraph::instance().begin(edge_);
    linked_ = begun.ok();
    return begun;
  }

  void end(detail::Wakeup& wakeup) noexcept override {
    if (linked_) WaitGraph::instance().end(edge_);
    task_.waits.end(task_, wakeup);  // a waiter that is woken may destroy this object
  }

 private:
  OfTask& task_;
  WaitGraph::Edge edge_;
  bool linked_ = false;
};

// A wait of a task that has no permits, because its submitter runs it.
class Waits::PermitlessWait final : public detail::TaskWait {
 public:
  Result<void> begin(TaskCore& waiter, TaskCore& target, bool bounded, bool blocks) {
    edge_.operation = &detail::Operation::current();
    edge_.waiter = &waiter;
    edge_.task = &target;
    edge_.bounded = bounded;
    edge_.thread = blocks ? Scheduler::current() : nullptr;
    return WaitGraph::instance().begin(edge_);
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

bool Waits::gave_lane_back(const TaskCore& task) {
  MutexLock lock(mutex_);
  const auto found = tasks_.find(&task);
  return found != tasks_.end() && found->second->lane_back;
}

// ---- a wait begins

// The graph checks the wait before anything is given back: a wait that is refused has nothing to take back. From the
// check on, others count on the permits that this one is about to give back.
Result<std::unique_ptr<detail::TaskWait>> Waits::begin(TaskCore& waiter, TaskCore& target,
                                                       bool bounded, bool blocks) {
  if (!waiter.holds_permits()) {
    auto wait = std::make_unique<PermitlessWait>();
    if (Result<void> begun = wait->begin(waiter, target, bounded, blocks); !begun) {
      return begun.error();
    }
    return std::unique_ptr<detail::TaskWait>(std::move(wait));
  }
  const bool same_lane =
      &target.owner() == &waiter.owner() && waiter.group_key() == target.group_key();
  OfTask* task = nullptr;
  bool keeps_lane = false;
  {
    MutexLock lock(mutex_);
    task = &of(waiter);
    ++task->open;  // so that it does not go on between the check and the next step
    if (same_lane) ++task->leaving_lane;
    keeps_lane = !same_lane && !task->lane_back && task->leaving_lane == 0;
  }
  auto wait = std::make_unique<GroupWait>(*task);
  if (Result<void> begun = wait->begin(target, keeps_lane, bounded, blocks); !begun) {
    abandon(*task, same_lane);
    return begun.error();
  }
  Aftermath aftermath(scheduler_);
  give_back(*task, same_lane, aftermath);
  return std::unique_ptr<detail::TaskWait>(std::move(wait));
}

std::unique_ptr<detail::TaskWait> Waits::begin_rest(TaskCore& waiter) {
  OfTask* task = nullptr;
  {
    MutexLock lock(mutex_);
    task = &of(waiter);
    ++task->open;
  }
  Aftermath aftermath(scheduler_);
  give_back(*task, /*lane=*/false, aftermath);
  return std::make_unique<GroupWait>(*task);
}

void Waits::give_back(OfTask& task, bool lane_too, Aftermath& aftermath) {
  Lane& lane = *task.waiter.lane();
  bool leaves_gate = false;
  {
    MutexLock lock(mutex_);
    if (lane_too) --task.leaving_lane;
    if (lane_too && !std::exchange(task.lane_back, true)) {
      if (intake_.change(lane, [&] { return lane.give_back(task.waiter.units()); })) {
        aftermath.post(lane);
      }
    }
    leaves_gate = dispatch_.has_gate() && !std::exchange(task.gate_back, true);
    count(task);
  }
  if (leaves_gate) dispatch_.leave_gate(lane, aftermath);
  intake_.made_room(lane, aftermath);
}

// A waiting task that holds only its lane's permit does not count as able to run.
void Waits::count(OfTask& task) {
  const bool uncounted = task.open > 0 && task.gate_back && !task.lane_back;
  if (uncounted == task.uncounted) return;
  task.uncounted = uncounted;
  intake_.count_waiting(uncounted);
}

Runnable* Waits::give_back_permit(TaskCore& waiter) {
  MutexLock lock(mutex_);
  OfTask& task = *tasks_.at(&waiter);
  if (std::exchange(task.lane_back, true)) return nullptr;
  count(task);
  Lane& lane = *waiter.lane();
  const bool post = intake_.change(lane, [&] { return lane.give_back(waiter.units()); });
  return post ? &lane : nullptr;
}

// A wait was refused: another branch may have waited for it to end.
void Waits::abandon(OfTask& task, bool same_lane) {
  Aftermath aftermath(scheduler_);
  Next next = Next::kNothing;
  {
    MutexLock lock(mutex_);
    --task.open;
    if (same_lane) --task.leaving_lane;
    count(task);
    if (task.open > 0) return;
    if (!task.over.empty()) {
      next = begin_return(task);
    } else if (!task.returning && !task.lane_back && !task.gate_back) {
      tasks_.erase(&task.waiter);
      return;
    }
  }
  return_by(task, next, aftermath);
}

// ---- a wait is over

void Waits::end(OfTask& task, detail::Wakeup& wakeup) {
  Aftermath aftermath(scheduler_);
  Next next = Next::kNothing;
  {
    MutexLock lock(mutex_);
    --task.open;
    count(task);
    if (!task.lane_back && !task.gate_back) {
      aftermath.wake(wakeup);
      if (task.open == 0) tasks_.erase(&task.waiter);
      return;
    }
    task.over.push_back(&wakeup);
    if (task.open == 0) next = begin_return(task);
  }
  return_by(task, next, aftermath);
}

Waits::Next Waits::begin_return(OfTask& task) {
  if (std::exchange(task.returning, true)) return Next::kNothing;
  return task.lane_back ? Next::kEnterLane : Next::kEnterGate;
}

void Waits::return_by(OfTask& task, Next next, Aftermath& aftermath) {
  if (next == Next::kNothing)
    return;  // another wait of the task may have ended by now, and all of it be gone
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
void Waits::came_back(TaskCore& returning, Lane& lane, std::uint32_t units) {
  Aftermath aftermath(scheduler_);
  OfTask& task = Returning::task_of(returning);
  returning.release();
  {
    MutexLock lock(mutex_);
    task.returning = false;
    if (task.open == 0) {
      if (task.waiter.has_extras()) task.waiter.extras().units = units;
      for (detail::Wakeup* wakeup : task.over) aftermath.wake(*wakeup);
      tasks_.erase(&task.waiter);
      return;
    }
    // Another of the task's branches waits by now: the permits go back again.
    if (intake_.change(lane, [&] { return lane.give_back(units); })) aftermath.post(lane);
  }
  dispatch_.leave_gate(lane, aftermath);
  intake_.made_room(lane, aftermath);
}

// From the gate, while the task holds its lane's permit; unless another of its branches gave that back meanwhile.
Lane* Waits::has_global_permit(OfTask& task, Aftermath& aftermath) {
  Lane& lane = *task.waiter.lane();
  bool enters_lane = false;
  {
    MutexLock lock(mutex_);
    if (task.open == 0 && !task.lane_back) {
      for (detail::Wakeup* wakeup : task.over) aftermath.wake(*wakeup);
      tasks_.erase(&task.waiter);
      return nullptr;
    }
    enters_lane = task.open == 0;
    task.returning = enters_lane;
  }
  if (enters_lane) return_by(task, Next::kEnterLane, aftermath);
  return &lane;
}

}  // namespace keyway
