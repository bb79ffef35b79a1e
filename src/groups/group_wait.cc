// Waiting for a task, from outside and from within another one.
//
// A task that waits for another keeps its lane's permit, so that nobody comes between the halves of a
// serial task; but it gives back what the other one needs: the global permit always, and the lane's own
// when the other stands behind it in the same queue. It goes on when it has both again, in front of all
// who wait. A coroutine may wait for several at once: it goes on when all of these waits are over.
#include "base/futex.h"
#include "base/spin_lock.h"
#include "groups/group_engine.h"
#include "groups/task_waits.h"
#include "keyway/detail/block_pool.h"
#include "keyway/detail/check.h"
#include "keyway/task_handle.h"
#include "runtime/current_task.h"
#include "runtime/thread_wakeup.h"
#include "runtime/wait_graph.h"

namespace keyway {

using detail::name_of;
using detail::TaskCore;

namespace {

// About 10 us: a short task is over before a sleeper could be woken.
constexpr int kSpinsBeforeSleep = spins_before_sleep(400);

using Waited = detail::TaskOwner::Waited;

Waited sleep_until_done(TaskCore& task, const TimePoint* deadline, const std::stop_token& stop,
                        Scheduler& scheduler) {
  while (true) {
    if (scheduler.run_one()) {
      if (task.done()) return Waited::kDone;
      continue;
    }
    const bool naps = scheduler.has_no_other_thread();
    const TimePoint nap_over = std::chrono::steady_clock::now() + kNap;
    const bool until_deadline = !naps || (deadline != nullptr && *deadline <= nap_over);
    if (task.sleep_until_done(until_deadline ? deadline : &nap_over, stop)) return Waited::kDone;
    if (stop.stop_requested()) return Waited::kStopped;
    if (until_deadline) return Waited::kTimedOut;
  }
}

// Without threads, the one who waits makes everything happen. The alarm is there so that time does not
// jump over the deadline.
Result<Waited> simulate_until_done(TaskCore& task, const TimePoint* deadline,
                                   const std::stop_token& stop, Scheduler& scheduler) {
  struct Alarm final : Timer {
    void fire() override {}
  } alarm;
  if (deadline != nullptr) scheduler.add_timer(alarm, *deadline);
  Result<Waited> waited = Waited::kDone;
  while (!task.done() && waited && *waited == Waited::kDone) {
    if (stop.stop_requested()) {
      waited = Waited::kStopped;
    } else if (deadline != nullptr && scheduler.now() >= *deadline) {
      waited = Waited::kTimedOut;
    } else if (!scheduler.run_one()) {
      waited = Error{ErrorCode::kWaitCycle, "waiting for " + name_of(task) +
                                                " would never end: nothing is left that could run"};
    }
  }
  if (deadline != nullptr) scheduler.cancel_timer(alarm);
  return waited;
}

}  // namespace

TaskCore* detail::task_on_this_thread() {
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    TaskCore* task = scope->task();
    if (task != nullptr && task->holds_permits()) return task;
  }
  return nullptr;
}

namespace {

// Stands in a lane's queue for a task that wants its permit back. When its turn comes it runs nothing:
// it leaves the permits to the task.
class ReturningTask final : public TaskCore {
 public:
  static ReturningTask& make(TaskCore& task, TaskWaits& waits) {
    void* block = detail::allocate_block(
        block_bytes(kOperations, task.group_key().size(), task.has_extras()));
    auto& made = *new (block) ReturningTask(task, waits);
    if (task.has_extras()) {
      made.add_extras();
      made.extras().cost = task.extras().cost;
    }
    return made;
  }

 private:
  ReturningTask(TaskCore& task, TaskWaits& waits)
      : TaskCore(kOperations, task.owner(), 1, task.group_key(), {}), waits_(waits) {}

  static bool run(TaskCore& core, TaskStatus&) {
    auto& self = static_cast<ReturningTask&>(core);
    Lane& lane = *self.lane();
    TaskWaits& waits = self.waits_;
    const std::uint32_t units = self.units();
    self.release();
    waits.came_back(lane, units);
    return false;
  }

  static const detail::TaskOperations kOperations;

  TaskWaits& waits_;
};

constexpr detail::TaskOperations ReturningTask::kOperations{
    .size_bytes = sizeof(ReturningTask),
    .is_return = true,
    .run = &run,
    .collect = nullptr,
    .drop = nullptr,
    .value = nullptr,
    .copy = nullptr,
    .error = nullptr,
    .destroy = [](TaskCore&, TaskStatus) {},
    .over_aligned = false,
    .can_stop = false,
    .request_stop = nullptr,
};

// One wait of a task.
class GroupWait final : public detail::TaskWait {
 public:
  GroupWait(TaskWaits& waits, WaitGraph::Ticket ticket) : waits_(waits), ticket_(ticket) {}

  void end(detail::Wakeup& wakeup) noexcept override {
    WaitGraph::instance().end(ticket_);
    waits_.end(wakeup);  // whoever is woken may destroy this object
  }

 private:
  TaskWaits& waits_;
  const WaitGraph::Ticket ticket_;
};

}  // namespace

// ---- the waits of one task

TaskWaits::TaskWaits(GroupEngine& engine, TaskCore& waiter) : engine_(engine), waiter_(waiter) {
  engine_.begin_use();
}
TaskWaits::~TaskWaits() { engine_.end_use(); }

TaskWaits::GivenBack TaskWaits::begin(TaskCore& target, bool target_is_away) {
  GivenBack given;
  ++open_;
  const bool same_lane = &target.owner() == &engine_ && waiter_.group_key() == target.group_key();
  if (same_lane && !lane_given_back_) {
    Lane& lane = *waiter_.lane();
    const Lane::GivenBack gave = engine_.change(lane, [&] {
      return lane.give_back_for(target_is_away ? nullptr : &target.waiter(), waiter_.units());
    });
    lane_given_back_ = gave.given_back;
    if (gave.post_turn) given.lane_to_post = &lane;
  }
  const GivenBack gate = give_back_gate();
  given.gate_lane = gate.gate_lane;
  given.keeps_lane = gate.keeps_lane;
  return given;
}

TaskWaits::GivenBack TaskWaits::begin_rest() {
  ++open_;
  return give_back_gate();
}

TaskWaits::GivenBack TaskWaits::give_back_gate() {
  GivenBack given;
  if (engine_.gate_ != nullptr && !gate_given_back_) {
    gate_given_back_ = true;
    given.gate_lane = waiter_.lane();
  }
  given.keeps_lane = !lane_given_back_;
  count_again();
  return given;
}

void TaskWaits::count_again() {
  const bool uncounted = open_ > 0 && gate_given_back_ && !lane_given_back_;
  if (uncounted == uncounted_ || engine_.admission_ == nullptr) return;
  uncounted_ = uncounted;
  MutexLock lock(engine_.admission_->mutex);
  uncounted ? --engine_.admission_->could_run : ++engine_.admission_->could_run;
}

Lane* TaskWaits::give_back_lane() {
  if (lane_given_back_) return nullptr;
  lane_given_back_ = true;
  count_again();
  Lane& lane = *waiter_.lane();
  const Lane::GivenBack gave =
      engine_.change(lane, [&] { return lane.give_back_for(nullptr, waiter_.units()); });
  return gave.post_turn ? &lane : nullptr;
}

void TaskWaits::end(detail::Wakeup& wakeup, bool refused) {
  GroupEngine& engine = engine_;
  enum { kWakeNow, kLater, kComeBack, kEnterGate } next = kLater;
  {
    MutexLock lock(engine.waits_mutex_);
    --open_;
    count_again();
    const bool others_wait = refused && open_ > 0;
    if ((!lane_given_back_ && !gate_given_back_) || others_wait) {
      next = kWakeNow;
      if (open_ == 0) engine.waits_.erase(&waiter_);  // and this object with it
    } else {
      over_.push_back(&wakeup);
      if (open_ == 0 && !returning_) {
        returning_ = true;
        next = lane_given_back_ ? kComeBack : kEnterGate;
        if (next == kEnterGate) {  // now it has its lane's permit, later perhaps not
          gate_lane_ = waiter_.lane();
          engine.pin_for_gate(*gate_lane_);
        }
      }
    }
  }
  switch (next) {
    case kWakeNow:
      wakeup.wake();
      break;
    case kLater:
      break;
    case kComeBack:
      engine.come_back(ReturningTask::make(waiter_, *this));
      break;
    case kEnterGate:
      if (engine.gate_->enter_again(*this)) go_on();
      break;
  }
}

// The permits are there: the lane's (by way of its turn, which took the global one too), or just the
// global one (from the gate).
void TaskWaits::came_back(Lane& lane, std::uint32_t units) {
  GroupEngine& engine = engine_;
  std::vector<detail::Wakeup*> woken;
  {
    MutexLock lock(engine.waits_mutex_);
    returning_ = false;
    if (open_ == 0) {
      waiter_.set_lane(&lane);
      if (waiter_.has_extras()) waiter_.extras().units = units;
      woken.swap(over_);
      engine.waits_.erase(&waiter_);
    }
  }
  if (woken.empty()) {
    // Another of the task's branches waits by now: back again.
    const Lane::GivenBack gave =
        engine.change(lane, [&] { return lane.give_back_for(nullptr, units); });
    if (gave.post_turn) engine.scheduler_.post(lane);
    engine.leave_gate(lane);
    if (!engine.room_line_.empty()) engine.let_all_in();
    return;
  }
  for (detail::Wakeup* wakeup : woken) wakeup->wake();
}

void TaskWaits::go_on() {
  GroupEngine& engine = engine_;
  Lane* const gate_lane = gate_lane_;
  std::vector<detail::Wakeup*> woken;
  bool lane_too = false;
  {
    MutexLock lock(engine.waits_mutex_);
    // Another of the task's branches may have given the lane's permit back by now, or waits.
    lane_too = open_ == 0 && lane_given_back_;
    returning_ = lane_too;
    if (open_ == 0 && !lane_too) {
      woken.swap(over_);
      engine.waits_.erase(&waiter_);
    }
  }
  if (woken.empty()) engine.leave_gate(*gate_lane);
  if (lane_too) engine.come_back(ReturningTask::make(waiter_, *this));
  for (detail::Wakeup* wakeup : woken) wakeup->wake();
}

TaskWaits& GroupEngine::waits_of(TaskCore& waiter) {
  ++waits_begun_;
  std::unique_ptr<TaskWaits>& slot = waits_[&waiter];
  if (slot == nullptr) slot = std::make_unique<TaskWaits>(*this, waiter);
  return *slot;
}

Result<std::unique_ptr<detail::TaskWait>> GroupEngine::begin_wait(TaskCore& waiter,
                                                                  TaskCore& target, bool bounded) {
  TaskWaits* waits = nullptr;
  TaskWaits::GivenBack given;
  {
    MutexLock lock(waits_mutex_);
    waits = &waits_of(waiter);
    // A target that gave its permit back stands in the queue too, or will.
    const auto away = waits_.find(&target);
    const bool gave_back = away != waits_.end() && away->second->lane_given_back();
    const bool follows = target.has_extras() && target.extras().follows;
    given = waits->begin(target, gave_back || follows || target.awaits_room());
  }
  if (given.lane_to_post != nullptr) scheduler_.post(*given.lane_to_post);
  if (given.gate_lane != nullptr) leave_gate(*given.gate_lane);
  if (!room_line_.empty()) let_all_in();
  Result<WaitGraph::Ticket> ticket =
      WaitGraph::instance().begin({.operation = &detail::Operation::current(),
                                   .waiter = &waiter,
                                   .task = &target,
                                   .holds_permit = given.keeps_lane,
                                   .bounded = bounded});
  if (ticket) return std::unique_ptr<detail::TaskWait>(new GroupWait(*waits, *ticket));
  ThreadWakeup back;
  waits->end(back, /*refused=*/true);
  KEYWAY_CHECK(back.wait(scheduler_),
               "a refused wait wants its permits back, but the simulation has nothing more to run");
  return ticket.error();
}

namespace {

class GroupRest final : public detail::TaskWait {
 public:
  explicit GroupRest(TaskWaits& waits) : waits_(waits) {}
  void end(detail::Wakeup& wakeup) noexcept override { waits_.end(wakeup); }

 private:
  TaskWaits& waits_;
};

}  // namespace

std::unique_ptr<detail::TaskWait> GroupEngine::begin_rest(TaskCore& task) {
  if (gate_ == nullptr) return nullptr;
  TaskWaits* waits = nullptr;
  TaskWaits::GivenBack given;
  {
    MutexLock lock(waits_mutex_);
    waits = &waits_of(task);
    given = waits->begin_rest();
  }
  if (given.gate_lane != nullptr) leave_gate(*given.gate_lane);
  if (!room_line_.empty()) let_all_in();
  return std::make_unique<GroupRest>(*waits);
}

void GroupEngine::come_back(TaskCore& returning) {
  const bool ranked = is_ranked(returning);
  Lane& lane = pin(returning.group_key());
  const Lane::Entered entered =
      change(lane, [&] { return lane.enter_in_front(returning.waiter()); });
  if (entered == Lane::Entered::kNeedsTurn) scheduler_.post(lane);
  give_held_turn(lane);
  if (has_states_) stop_waiting_for_tokens(lane);
  if (ranked) less_room();
  table_.unpin(lane);
}

// Fewer may run in a lane than before, or somebody who costs more stands in front there.
void GroupEngine::less_room() {
  if (WaitGraph::instance().look_again() && !room_line_.empty()) let_all_in();
}

Runnable* GroupEngine::give_back_permit(TaskCore& waiter) {
  MutexLock lock(waits_mutex_);
  return waits_.at(&waiter)->give_back_lane();
}

detail::TaskOwner::Need GroupEngine::need(TaskCore& task) {
  if (task.has_extras() && task.extras().follows) {
    Need of_leader;
    conflation_.with_leader(task, [&](TaskCore& leader) { of_leader = need(leader); });
    return of_leader;
  }
  bool comes_back = false;
  {
    MutexLock lock(waits_mutex_);
    const auto found = waits_.find(&task);
    comes_back = found != waits_.end() && found->second->lane_given_back();
  }
  const std::string_view key = task.group_key();
  return table_.with_lane(key, LaneTable::hash(key), [&](Lane* lane) -> Need {
    if (lane == nullptr) return {};
    const std::uint32_t limit = lane->limits().running;
    if (comes_back) return {.room = std::min(task.units(), limit), .limit = limit};
    return {.room = lane->needed_for(task.waiter(), task.awaits_room()), .limit = limit};
  });
}

namespace {

// A thread outside of tasks that waits for one. If it holds locks, others may wait for it.
class ThreadWait {
 public:
  Result<void> begin(TaskCore& task, bool bounded) {
    const detail::Operation& thread = detail::Operation::current();
    if (thread.locks_held == 0) return {};
    Result<WaitGraph::Ticket> begun =
        WaitGraph::instance().begin({.operation = &thread, .task = &task, .bounded = bounded});
    if (!begun) return begun.error();
    ticket_ = *begun;
    return {};
  }
  ~ThreadWait() {
    if (ticket_) WaitGraph::instance().end(*ticket_);
  }

 private:
  std::optional<WaitGraph::Ticket> ticket_;
};

}  // namespace

Result<Waited> GroupEngine::wait(TaskCore& task, const TimePoint* deadline, std::stop_token stop) {
  for (int i = 0; i < kSpinsBeforeSleep; ++i) {
    if (task.done()) return Waited::kDone;
    cpu_relax();
  }
  TaskCore* waiter = detail::task_on_this_thread();
  std::unique_ptr<detail::TaskWait> wait;
  ThreadWait of_thread;
  if (waiter != nullptr) {
    auto begun = waiter->owner().begin_wait(*waiter, task, /*bounded=*/deadline != nullptr);
    if (!begun) return begun.error();
    wait = std::move(begun).value();
  } else if (Result<void> begun = of_thread.begin(task, deadline != nullptr); !begun) {
    return begun.error();
  }
  Scheduler& blocked = waiter != nullptr ? waiter->owner().scheduler() : scheduler_;
  blocked.begin_blocking();
  Result<Waited> waited = blocked.has_no_threads()
                              ? simulate_until_done(task, deadline, stop, blocked)
                              : sleep_until_done(task, deadline, stop, blocked);
  if (wait != nullptr) {
    ThreadWakeup back;
    wait->end(back);
    back.wait(blocked);
  }
  blocked.end_blocking();
  return waited;
}

namespace detail {

TimePoint deadline_after(TaskCore& task, Duration timeout) {
  const TimePoint now =
      task.done() ? std::chrono::steady_clock::now() : task.owner().scheduler().now();
  return timeout > TimePoint::max() - now ? TimePoint::max() : now + timeout;
}

void throw_result_taken(const TaskCore& task) {
  throw Exception({ErrorCode::kResultTaken,
                   "the result of " + name_of(task) + " was taken before; keep the first one"});
}

void throw_no_task() {
  throw Exception({ErrorCode::kInvalidArgument, "this handle is empty: it was moved from"});
}

std::exception_ptr wait_error(const TaskCore& task, TaskOwner::Waited waited) {
  const std::string name = name_of(task);
  switch (waited) {
    case TaskOwner::Waited::kTimedOut:
      return std::make_exception_ptr(
          TimeoutError(name + " was not done in time; it goes on, and can be waited for again"));
    default:
      return std::make_exception_ptr(CancelledError("the wait for " + name + " was stopped"));
  }
}

}  // namespace detail
}  // namespace keyway
