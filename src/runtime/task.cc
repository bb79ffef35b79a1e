#include "keyway/task.h"

#include "runtime/current_task.h"
#include "runtime/thread_wakeup.h"
#include "runtime/time_after.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

void Resumption::run(Turn&) {
  // The coroutine may end and take this object with it.
  const std::coroutine_handle<> coroutine = std::exchange(coroutine_, nullptr);
  context_ != nullptr ? resume_as(context_->operation, coroutine) : coroutine.resume();
}

void resume_as(const Operation& operation, std::coroutine_handle<> coroutine) {
  const CurrentTaskScope scope(operation);
  coroutine.resume();
}

void continue_as(const Operation& operation) noexcept { CurrentTaskScope::continue_as(operation); }

void branch_ends(const Operation& whole) noexcept {
  if (TaskCore* task = whole.task()) task->owner().branch_ends(*task);
}

// The timer, the stop callback and await_suspend() itself may meet. Who moves phase_ from kArmed to
// kOver resumes the coroutine; who finds kStarting leaves that to suspend(), which has not given the
// coroutine up yet.
//
//   kStarting -> kArmed   suspend(), at its end: from now on others may resume
//   kStarting -> kOver    wake() during suspend(): suspend() then does not suspend
//   kArmed    -> kOver    wake(): posts the resumption
bool SleepAwaiter::suspend(std::coroutine_handle<> coroutine, const TaskContext& context) {
  coroutine_ = coroutine;
  context_ = &context;
  Scheduler& scheduler = *context.scheduler;
  scheduler.add_timer(*this, time_after(scheduler.now(), duration_));
  if (context.stop.stop_possible()) on_stop_.emplace(context.stop, OnStop{this});
  Phase expected = kStarting;
  // acq_rel: pairs with wake().
  if (phase_.compare_exchange_strong(expected, kArmed, std::memory_order_acq_rel)) return true;
  scheduler.cancel_timer(*this);
  return false;
}

void SleepAwaiter::wake() {
  Phase phase = phase_.load(std::memory_order_acquire);
  do {
    if (phase == kOver) return;
  } while (!phase_.compare_exchange_weak(phase, kOver, std::memory_order_acq_rel));
  if (phase == kStarting) return;
  context_->scheduler->cancel_timer(*this);
  resumption_.post(coroutine_, *context_);
}

void SleepAwaiter::await_resume() {
  on_stop_.reset();  // waits for a callback that runs elsewhere just now
  if (context_->stop.stop_requested()) throw CancelledError("the task was cancelled in a sleep");
}

// ---- sync_wait()

struct SyncWait::State final : WantedWork {
  State(Scheduler& of, const Operation& part) : target(of), coroutine(part) {}

  Scheduler* scheduler() const override { return &target; }
  std::uint64_t operation() const override { return coroutine.id(); }
  std::string name() const override { return "a coroutine"; }

  Scheduler& target;
  const Operation& coroutine;
  ThreadWakeup wakeup;
  WaitGraph::Edge edge;
  bool linked = false;
};

SyncWait::SyncWait(Scheduler& scheduler, const Operation& operation)
    : state_(std::make_unique<State>(scheduler, operation)) {
  WaitGraph::Edge& edge = state_->edge;
  edge.operation = &Operation::current();
  edge.work = state_.get();
  if (edge.operation->locks_held == 0) return;  // no other wait depends on this thread
  operation.is_awaited = true;
  if (Result<void> begun = WaitGraph::instance().begin(edge); !begun) {
    throw Exception(begun.error());
  }
  state_->linked = true;
}

SyncWait::~SyncWait() {
  if (state_->linked) WaitGraph::instance().end(state_->edge);
}

std::coroutine_handle<> SyncWait::done() noexcept {
  state_->wakeup.wake();
  return std::noop_coroutine();
}

void SyncWait::wait() {
  const WaitEnd end = block(state_->wakeup, {.scheduler = &state_->target});
  KEYWAY_CHECK(end == WaitEnd::kDone,
               "sync_wait() waits for a coroutine, but the simulation has nothing more to run");
}

}  // namespace keyway::detail
