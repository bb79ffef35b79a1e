// The awaiters of sleep_for(), current_stop_token(), reschedule() and when_all().
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <coroutine>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "keyway/detail/atomic.h"
#include "keyway/detail/operation.h"
#include "keyway/detail/task_core.h"
#include "keyway/detail/task_promise.h"
#include "keyway/scheduler.h"

namespace keyway::detail {

class [[nodiscard("write co_await in front of it")]] SleepAwaiter final : public Timer,
                                                                          private Wakeup {
 public:
  // `needs_permits`: if a branch of a task sleeps, the task may give its permits back meanwhile, and
  // the branch goes on when the task has them again.
  explicit SleepAwaiter(Duration duration, bool needs_permits = true)
      : duration_(duration), needs_permits_(needs_permits) {}

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    return suspend(coroutine, context_of(coroutine));
  }
  void await_resume();

  void fire() override { end(); }

 private:
  enum Phase : int { kStarting, kArmed, kOver };
  struct OnStop {
    SleepAwaiter* awaiter;
    void operator()() const { awaiter->end(); }
  };

  bool suspend(std::coroutine_handle<> coroutine, const TaskContext& context);
  void end();
  // Resumes the coroutine when its task has its permits.
  void go_on();
  void wake() noexcept override { resumption_.post(coroutine_, *context_); }

  const Duration duration_;
  const bool needs_permits_;
  std::unique_ptr<TaskWait> sleep_;  // of a branch of a task
  std::coroutine_handle<> coroutine_;
  const TaskContext* context_ = nullptr;
  Atomic<Phase> phase_{kStarting};
  std::optional<std::stop_callback<OnStop>> on_stop_;
  Resumption resumption_;
};

struct [[nodiscard("write co_await in front of it")]] StopTokenAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    token = context_of(coroutine).stop;
    return false;
  }
  std::stop_token await_resume() { return std::move(token); }
  std::stop_token token;
};

struct [[nodiscard("write co_await in front of it")]] RescheduleAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) {
    resumption.post(coroutine, context_of(coroutine));
  }
  void await_resume() const noexcept {}
  Resumption resumption;
};

// Counts the branches of an operation, which run concurrently. The last branch to end resumes the
// operation.
class WhenAllLatch final : public Completion {
 public:
  // `working`: the branches that run code of the user.
  explicit WhenAllLatch(std::size_t branches) : WhenAllLatch(branches, branches) {}
  WhenAllLatch(std::size_t branches, std::size_t working)
      : several_(working > 1), running_(working + 1), left_(branches + 1) {}

  // Calls `start`, which starts the branches: it calls starts_one() before each of them.
  template <class Start>
  void begin(const Operation& operation, Start&& start) {
    operation_ = &operation;
    if (!several_) return start();
    start_branches(
        operation,
        [](void* argument) { (*static_cast<std::remove_reference_t<Start>*>(argument))(); },
        &start);
  }
  void starts_one() {
    if (several_) branch_begins(*operation_);
  }
  // True if a branch has not ended: the caller suspends.
  bool wait(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    end_one();
    // acq_rel: the last one to decrement sees the writes of all branches.
    return left_.fetch_sub(1, std::memory_order_acq_rel) != 1;
  }
  std::coroutine_handle<> done() noexcept override {
    end_one();
    return count_one();
  }
  // A branch that was not started.
  void skip() noexcept {
    running_.fetch_sub(1, std::memory_order_relaxed);
    count_one();
  }

 private:
  // Before count_one(): after it the task may be freed.
  void end_one() noexcept {
    if (several_ && running_.fetch_sub(1, std::memory_order_relaxed) != 1) branch_ends(*operation_);
  }
  std::coroutine_handle<> count_one() noexcept {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return std::noop_coroutine();
    continue_as(*operation_);
    return waiting_;
  }

  const bool several_;           // a single branch runs in place of the operation
  Atomic<std::size_t> running_;  // the branches, and the operation until it waits
  Atomic<std::size_t> left_;
  std::coroutine_handle<> waiting_;
  const Operation* operation_ = nullptr;
};

template <class Start>
struct WhenAllAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    const TaskContext& context = context_of(waiting);
    latch.begin(context.operation, [&] { start(context, latch); });
    return latch.wait(waiting);
  }
  void await_resume() const noexcept {}

  Start start;
  WhenAllLatch latch;
};

}  // namespace keyway::detail
