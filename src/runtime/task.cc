#include "keyway/task.h"

#include "base/futex.h"
#include "runtime/current_task.h"

namespace keyway::detail {

namespace {

// Too far away to be counted is as far away as can be.
TimePoint saturating_add(TimePoint time, Duration duration) {
  return duration > TimePoint::max() - time ? TimePoint::max() : time + duration;
}

}  // namespace

void Resumption::run(Turn&) {
  // The coroutine may end and take this object with it.
  resume_as(context_->operation, std::exchange(coroutine_, nullptr));
}

void resume_as(const Operation& operation, std::coroutine_handle<> coroutine) {
  const CurrentTaskScope scope(operation);
  coroutine.resume();
}

void continue_as(const Operation& operation) noexcept { CurrentTaskScope::continue_as(operation); }

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
  scheduler.add_timer(*this, saturating_add(scheduler.now(), duration_));
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

std::coroutine_handle<> BlockingCompletion::done() noexcept {
  done_.store(1, std::memory_order_release);
  futex_wake_one(done_);
  return std::noop_coroutine();
}

void BlockingCompletion::wait(Scheduler& scheduler) {
  scheduler.begin_blocking();
  while (done_.load(std::memory_order_acquire) == 0) {
    if (scheduler.run_one()) continue;
    // A thread that must look after others too only naps.
    const bool naps = scheduler.has_no_other_thread();
    const TimePoint nap_over = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    futex_wait(done_, 0, naps ? Deadline(nap_over) : std::nullopt);
  }
  scheduler.end_blocking();
}

}  // namespace keyway::detail
