// Calls: tasks whose submitter waits for them, and may run them itself.
//
// A call's wait is known to the WaitGraph before its task can begin. So of the calls that would wait for each other
// it is the last one that is refused, and its task has not begun: a task that has begun is always waited for.
#include <memory>
#include <optional>
#include <utility>

#include "base/spin_lock.h"
#include "groups/group_engine.h"
#include "keyway/submit_awaiter.h"
#include "runtime/thread_wakeup.h"
#include "runtime/wait_graph.h"

namespace keyway {

using detail::TaskCore;

namespace {

// About 10 us: a short task is over before a sleeper could be woken.
constexpr int kSpinsBeforeSleep = spins_before_sleep(400);

// Whoever waits for a task that it submits: within a task, a wait of that one.
class Caller final : public detail::Continuation, public detail::RoomWaiter {
 public:
  Caller(TaskCore& task, Scheduler& scheduler)
      : task_(task), waiter_(detail::task_on_this_thread()), scheduler_(scheduler) {}

  Scheduler& scheduler() const {
    return waiter_ != nullptr ? waiter_->owner().scheduler() : scheduler_;
  }

  // An error (kWaitCycle) if the wait would never end.
  Result<void> begin() {
    const detail::Operation& operation = detail::Operation::current();
    if (waiter_ == nullptr && operation.locks_held == 0) return {};
    task_.set_awaits_room(true);  // until it is in its queue
    if (waiter_ != nullptr) {
      auto begun = waiter_->owner().begin_wait(*waiter_, task_, /*bounded=*/false);
      if (!begun) return begun.error();
      wait_ = std::move(begun).value();
      return {};
    }
    auto begun = WaitGraph::instance().begin({.operation = &operation, .task = &task_});
    if (!begun) return begun.error();
    ticket_ = *begun;
    return {};
  }
  ~Caller() {
    if (ticket_) WaitGraph::instance().end(*ticket_);
    if (wait_ == nullptr) return;
    ThreadWakeup back;
    wait_->end(back);
    block(back);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // REQUIRES: it has entered its queue.
  void wait_for_end() {
    if (task_.awaits_room()) task_.set_awaits_room(false);
    for (int i = scheduler().has_no_threads() ? kSpinsBeforeSleep : 0; i < kSpinsBeforeSleep; ++i) {
      if (task_.done()) return;
      cpu_relax();
    }
    if (task_.set_continuation(*this)) block(end_);
  }

  // The task will enter its queue, and hand over.
  void expect_turn() {
    expects_turn_ = true;
    task_.set_hands_over(true);
    task_.set_continuation(*this);
  }
  // The number of its turn; nullopt: the task has ended, and never began.
  std::optional<std::uint64_t> wait_for_turn() {
    block(room_);  // whoever makes room tells it last of all
    block(turn_);
    return number_;
  }
  // REQUIRES: it had its turn.
  void wait_for_end_after_turn() { block(end_); }

 private:
  void room_came(bool) noexcept override { room_.wake(); }
  void turn_came(std::uint64_t number) noexcept override {
    number_ = number;
    turn_.wake();
  }
  void task_done() noexcept override {
    const bool never_began = expects_turn_ && !number_;
    (never_began ? turn_ : end_).wake();
  }

  void block(ThreadWakeup& wakeup) {
    scheduler().begin_blocking();
    KEYWAY_CHECK(wakeup.wait(scheduler()),
                 "a call waits for a task, but the simulation has nothing more to run");
    scheduler().end_blocking();
  }

  TaskCore& task_;
  TaskCore* const waiter_;
  Scheduler& scheduler_;
  std::unique_ptr<detail::TaskWait> wait_;
  std::optional<WaitGraph::Ticket> ticket_;  // of a thread outside of tasks that holds locks
  bool expects_turn_ = false;
  std::optional<std::uint64_t> number_;
  ThreadWakeup room_;
  ThreadWakeup turn_;  // or the task's end, if it comes before
  ThreadWakeup end_;
};

}  // namespace

bool GroupEngine::is_inside(std::string_view key) const {
  const TaskCore* task = detail::task_on_this_thread();
  return task != nullptr && &task->owner() == this && task->group_key() == key;
}

void GroupEngine::run_inside(TaskCore& task) {
  tell_submitted(task);
  run_by_caller(task);
}

void GroupEngine::run_handed_over(TaskCore& task, std::uint64_t number) {
  task.set_hands_over(false);
  TaskStatus status{};
  if (run_task(task, number, scheduler_.now(), status)) end_outside_turn(task, status);
}

Result<void> GroupEngine::call(TaskCore& task, std::size_t hash, CallerRuns caller_runs,
                               bool waits) {
  const bool may_enter = caller_runs != CallerRuns::kAlways;
  if (!may_enter) {
    tell_submitted(task);
    if (task.has_extras()) start_expiry(task);
  } else if (!waits && enqueue_if_room(task, hash)) {
    return {};
  }
  const Use use(*this);
  if (!waits && is_inside(task.group_key())) {  // it would wait for itself
    turn_away(task);
    return detail::turned_away(task.group_key());
  }
  Caller caller(task, scheduler_);
  if (Result<void> begun = caller.begin(); !begun) {
    if (may_enter && waits) tell_submitted(task);
    turn_away(task);
    return begun;
  }
  if (may_enter && waits && enqueue_if_room(task, hash)) {
    caller.wait_for_end();
  } else if (caller_runs == CallerRuns::kNever) {
    turn_away(task);
    return detail::turned_away(task.group_key());
  } else {
    caller.expect_turn();
    wait_for_room(task, caller);
    if (const auto number = caller.wait_for_turn()) {
      run_handed_over(task, *number);
      caller.wait_for_end_after_turn();
    }
  }
  if (task.status() == TaskStatus::kRejected) return detail::shutdown_error(task);
  return {};
}

}  // namespace keyway
