#include "keyway/task.h"

#include "runtime/current_task.h"
#include "runtime/linked_wait.h"
#include "runtime/thread_wakeup.h"
#include "runtime/time_after.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

void Resumption::run(Turn&) {
  // The coroutine may end and take this object with it.
  const std::coroutine_handle<> coroutine = std::exchange(coroutine_, nullptr);
  if (context_ != nullptr) return resume_as(context_->operation, coroutine);
  // A foreign coroutine is not work of the scheduler, and may block: a drain does not wait for it. What
  // it locks here is not the thread's, which resumes others, too.
  const CurrentTaskScope own(nullptr);
  const BlockingRegion region;
  coroutine.resume();
}

void resume_as(const Operation& operation, std::coroutine_handle<> coroutine) {
  const CurrentTaskScope scope(operation);
  coroutine.resume();
}

void call_as(const Operation& operation, void (*call)(void*), void* argument) {
  const CurrentTaskScope scope(operation);
  call(argument);
}

void call_before_caller_goes_on(const Operation& operation, void (*call)(void*), void* argument) {
  operation.is_awaited = true;
  const CoroutineOnThread coroutine(operation);
  PartWait wait;
  // Not checked: the coroutine's own waits are.
  (void)wait.begin(
      {.operation = Operation::current(), .work = &coroutine, .blocks = true, .can_refuse = false});
  call_as(operation, call, argument);
}

void continue_as(const Operation& operation) noexcept { CurrentTaskScope::continue_as(operation); }
void leave_operation(const Operation& operation) noexcept { CurrentTaskScope::leave(operation); }

namespace {

// The task that counts which of its branches run. An InlineRun counts as one branch: it runs one
// coroutine at a time.
TaskCore* holder_that_counts(const Operation& operation) {
  return operation.is_confined() ? nullptr : permit_holder(operation);
}

}  // namespace

void branch_begins(const Operation& whole) {
  if (TaskCore* task = holder_that_counts(whole)) task->owner().branch_begins(*task);
}

void start_branches(const Operation& whole, void (*start)(void*), void* argument) {
  const ThreadContext::Starter starter(holder_that_counts(whole));
  start(argument);
}

std::unique_ptr<TaskWait> begin_rest(const Operation& operation) {
  // In an InlineRun the task's thread is blocked: it may be the last one, and the return would need another.
  TaskCore* task = holder_that_counts(operation);
  return task != nullptr ? task->owner().begin_rest(*task) : nullptr;
}

void branch_ends(const Operation& whole) noexcept {
  if (TaskCore* task = holder_that_counts(whole)) task->owner().branch_ends(*task);
}

// The timer, the stop callback and await_suspend() itself may meet. Who moves phase_ from kArmed to
// kOver resumes the coroutine; who finds kStarting leaves that to suspend(), which has not given the
// coroutine up yet.
//
//   kStarting -> kArmed   suspend(), at its end: from now on others may resume
//   kStarting -> kOver    end() during suspend(): suspend() then resumes
//   kArmed    -> kOver    end(): resumes
bool SleepAwaiter::suspend(std::coroutine_handle<> coroutine, const TaskContext& context) {
  coroutine_ = coroutine;
  context_ = &context;
  if (context.operation.parent() != nullptr && needs_permits_) {
    if (TaskCore* task = holder_that_counts(context.operation)) {
      sleep_ = task->owner().begin_sleep(*task, 1);
    }
  }
  Scheduler& scheduler = *context.scheduler;
  scheduler.add_timer(*this, time_after(scheduler.now(), duration_));
  if (context.stop.stop_possible()) on_stop_.emplace(context.stop, OnStop{this});
  Phase expected = kStarting;
  // acq_rel: pairs with end().
  if (phase_.compare_exchange_strong(expected, kArmed, std::memory_order_acq_rel)) return true;
  scheduler.cancel_timer(*this);
  if (sleep_ == nullptr) return false;
  go_on();
  return true;
}

void SleepAwaiter::end() {
  Phase phase = phase_.load(std::memory_order_acquire);
  do {
    if (phase == kOver) return;
  } while (!phase_.compare_exchange_weak(phase, kOver, std::memory_order_acq_rel));
  if (phase == kStarting) return;
  context_->scheduler->cancel_timer(*this);
  go_on();
}

void SleepAwaiter::go_on() { sleep_ != nullptr ? sleep_->end(*this) : wake(); }

void SleepAwaiter::await_resume() {
  on_stop_.reset();  // waits for a callback that runs elsewhere just now
  sleep_ = nullptr;
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
  PartWait wait;
};

SyncWait::SyncWait(Scheduler& scheduler, const Operation& operation)
    : state_(std::make_unique<State>(scheduler, operation)) {
  operation.is_awaited = true;
  const Result<void> begun =
      state_->wait.begin({.operation = Operation::current(), .work = state_.get(), .blocks = true});
  if (!begun) throw Exception(begun.error());
}

SyncWait::~SyncWait() = default;

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
