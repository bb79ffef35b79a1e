// The awaiters of sleep_for(), current_stop_token() and when_all().
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <coroutine>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <utility>

#include "keyway/detail/atomic.h"
#include "keyway/detail/operation.h"
#include "keyway/detail/task_promise.h"
#include "keyway/scheduler.h"

namespace keyway::detail {

class [[nodiscard("write co_await in front of it")]] SleepAwaiter final : public Timer {
 public:
  explicit SleepAwaiter(Duration duration) : duration_(duration) {}

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    return suspend(coroutine, context_of(coroutine));
  }
  void await_resume();

  void fire() override { wake(); }

 private:
  enum Phase : int { kStarting, kArmed, kOver };
  struct OnStop {
    SleepAwaiter* awaiter;
    void operator()() const { awaiter->wake(); }
  };

  bool suspend(std::coroutine_handle<> coroutine, const TaskContext& context);
  void wake();

  const Duration duration_;
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

// Counts the branches of an operation, which run concurrently. The last branch to end resumes the
// operation.
class WhenAllLatch final : public Completion {
 public:
  explicit WhenAllLatch(std::size_t branches) : left_(branches + 1) {}

  // REQUIRES: called before the first branch starts.
  void begin(const Operation& operation) noexcept { operation_ = &operation; }
  // True if a branch has not ended: the caller suspends.
  bool wait(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    // acq_rel: the last one to decrement sees the writes of all branches.
    return left_.fetch_sub(1, std::memory_order_acq_rel) != 1;
  }
  std::coroutine_handle<> done() noexcept override {
    branch_ends(*operation_);  // before count_one(): after it the task may be freed
    return count_one();
  }
  // A branch that was not started.
  void skip() noexcept { count_one(); }

 private:
  std::coroutine_handle<> count_one() noexcept {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return std::noop_coroutine();
    continue_as(*operation_);
    return waiting_;
  }

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
    latch.begin(context.operation);
    start(context, latch);
    return latch.wait(waiting);
  }
  void await_resume() const noexcept {}

  Start start;
  WhenAllLatch latch;
};

}  // namespace keyway::detail
