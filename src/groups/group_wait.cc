// Waiting for a task, from outside and from within another one.
//
// A task that waits for another keeps its lane's permit, so that nobody comes between the halves of a
// serial task; but it gives back what the other one needs: the global permit always, and the lane's own
// when the other stands behind it in the same queue. It goes on when it has both again, in front of all
// who wait.
#include "base/futex.h"
#include "base/spin_lock.h"
#include "groups/group_engine.h"
#include "keyway/detail/block_pool.h"
#include "keyway/task_handle.h"
#include "runtime/current_task.h"

namespace keyway {

using detail::TaskCore;

namespace {

// About 10 us: a short task is over before a sleeper could be woken.
constexpr int kSpinsBeforeSleep = 400;

// Wakes a blocked thread. Under a scheduler without threads, waiting makes it run.
class ThreadWakeup final : public detail::Wakeup {
 public:
  void wake() noexcept override {
    woken_.store(1, std::memory_order_release);
    futex_wake_one(woken_);
  }
  void wait(Scheduler& scheduler) {
    while (woken_.load(std::memory_order_acquire) == 0) {
      if (!scheduler.run_one()) futex_wait(woken_, 0, std::nullopt);
    }
  }

 private:
  std::atomic<std::uint32_t> woken_{0};
};

// The innermost task on this thread that holds permits; null if there is none.
TaskCore* task_on_this_thread() {
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    auto* task = static_cast<TaskCore*>(scope->task());
    if (task != nullptr && task->holds_permits()) return task;
  }
  return nullptr;
}

// Stands in a lane's queue for a task that wants its permit back. When its turn comes it runs nothing:
// it leaves the permits to the task and wakes it.
class ReturningTask final : public TaskCore {
 public:
  static ReturningTask& make(TaskCore& task, detail::Wakeup& wakeup) {
    void* block = detail::allocate_block(sizeof(ReturningTask) + task.group_key().size());
    return *new (block) ReturningTask(task, wakeup);
  }

 private:
  ReturningTask(TaskCore& task, detail::Wakeup& wakeup)
      : TaskCore(kOperations, task.owner(), 1, task.group_key(), {}),
        task_(task),
        wakeup_(wakeup) {}

  static bool run(TaskCore& core, TaskStatus&) {
    auto& self = static_cast<ReturningTask&>(core);
    self.task_.set_lane(self.lane());
    detail::Wakeup& wakeup = self.wakeup_;
    self.release();
    wakeup.wake();
    return false;
  }

  static const detail::TaskOperations kOperations;

  TaskCore& task_;
  detail::Wakeup& wakeup_;
};

constexpr detail::TaskOperations ReturningTask::kOperations{
    .size_bytes = sizeof(ReturningTask),
    .is_return = true,
    .run = &run,
    .collect = nullptr,
    .drop = nullptr,
    .value = nullptr,
    .error = nullptr,
    .destroy = [](TaskCore&, TaskStatus) {},
    .can_stop = false,
    .request_stop = nullptr,
};

}  // namespace

// Gives back what a waiting task can spare, and takes it again at the end.
class GroupWait final : public detail::TaskWait, private GlobalGate::Returner {
 public:
  GroupWait(GroupEngine& engine, TaskCore& waiter) : engine_(engine), waiter_(waiter) {}

  bool begin(TaskCore& target) {
    // Counted before, so that the engine never looks quiet while a task is in between.
    engine_.outside_.fetch_add(1, std::memory_order_seq_cst);
    if (&target.owner() == &engine_ && waiter_.group_key() == target.group_key()) {
      Lane& lane = *waiter_.lane();
      const Lane::GivenBack gave =
          engine_.change(lane, [&] { return lane.give_back_for(target.waiter()); });
      if (gave.post_turn) engine_.scheduler_.post(lane);
      lane_given_back_ = gave.given_back;
    }
    engine_.leave_gate();
    if (WaitGraph::instance().begin({&waiter_, &target, !lane_given_back_}, ticket_)) return true;
    never_began_ = true;
    return false;
  }

  void end(detail::Wakeup& wakeup) noexcept override {
    if (!never_began_) WaitGraph::instance().end(ticket_);
    // Whoever is woken may destroy this object.
    GroupEngine& engine = engine_;
    if (lane_given_back_) {
      engine.come_back(ReturningTask::make(waiter_, wakeup));
      engine.outside_.fetch_sub(1, std::memory_order_seq_cst);
      return;
    }
    engine.outside_.fetch_sub(1, std::memory_order_seq_cst);
    wakeup_ = &wakeup;
    if (engine.gate_ == nullptr || engine.gate_->enter_again(*this)) wakeup.wake();
  }

 private:
  void go_on() override { wakeup_->wake(); }

  GroupEngine& engine_;
  TaskCore& waiter_;
  bool lane_given_back_ = false;
  bool never_began_ = false;
  WaitGraph::Ticket ticket_;
  detail::Wakeup* wakeup_ = nullptr;
};

void GroupEngine::come_back(TaskCore& returning) {
  const std::string_view key = returning.group_key();
  Lane& lane = table_.pin(key, LaneTable::hash(key), resolve(key));
  const Lane::Entered entered =
      change(lane, [&] { return lane.enter_in_front(returning.waiter()); });
  if (entered == Lane::Entered::kNeedsTurn) scheduler_.post(lane);
  table_.unpin(lane);
}

std::unique_ptr<detail::TaskWait> GroupEngine::begin_wait(TaskCore& waiter, TaskCore& target) {
  auto wait = std::make_unique<GroupWait>(*this, waiter);
  if (wait->begin(target)) return wait;
  ThreadWakeup back;
  wait->end(back);
  back.wait(scheduler_);
  return nullptr;
}

std::uint64_t GroupEngine::permits_in_the_way(TaskCore& task) {
  const std::string_view key = task.group_key();
  return table_.with_lane(key, LaneTable::hash(key), [&](Lane* lane) -> std::uint64_t {
    return lane == nullptr ? 0 : lane->permits_in_the_way(task.waiter());
  });
}

detail::TaskOwner::Waited GroupEngine::wait(TaskCore& task, const TimePoint* deadline,
                                            std::stop_token stop) {
  for (int i = 0; i < kSpinsBeforeSleep; ++i) {
    if (task.done()) return Waited::kDone;
    cpu_relax();
  }
  TaskCore* waiter = task_on_this_thread();
  std::unique_ptr<detail::TaskWait> wait;
  if (waiter != nullptr) {
    wait = waiter->owner().begin_wait(*waiter, task);
    if (wait == nullptr) return Waited::kCycle;
  }
  Scheduler& blocked = waiter != nullptr ? waiter->owner().scheduler() : scheduler_;
  blocked.begin_blocking();
  Waited waited = sleep(task, deadline, stop);
  if (wait != nullptr) {
    ThreadWakeup back;
    wait->end(back);
    back.wait(blocked);
  }
  blocked.end_blocking();
  return waited;
}

detail::TaskOwner::Waited GroupEngine::sleep(TaskCore& task, const TimePoint* deadline,
                                             const std::stop_token& stop) {
  while (!task.done()) {
    if (stop.stop_requested()) return Waited::kStopped;
    if (deadline != nullptr && scheduler_.now() >= *deadline) return Waited::kTimedOut;
    if (scheduler_.run_one()) continue;
    if (scheduler_.has_no_threads()) return Waited::kCycle;
    if (task.sleep_until_done(deadline, stop)) break;
  }
  return Waited::kDone;
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
    case TaskOwner::Waited::kStopped:
      return std::make_exception_ptr(CancelledError("the wait for " + name + " was stopped"));
    default:
      return std::make_exception_ptr(
          Exception({ErrorCode::kWaitCycle,
                     "waiting for " + name +
                         " would never end: the tasks that it waits for wait for each "
                         "other; take the result after this task, or use other keys"}));
  }
}

}  // namespace detail
}  // namespace keyway
