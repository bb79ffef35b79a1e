// A pause of a coroutine that others may use.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <coroutine>
#include <memory>

#include "keyway/detail/task_core.h"
#include "keyway/task.h"

namespace keyway {

namespace detail {

// Gives back what the calling task can do without while it rests; null if it has nothing to spare.
struct BeginRest {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    rest = begin_rest(context_of(coroutine).operation);
    return false;
  }
  std::unique_ptr<TaskWait> await_resume() { return std::move(rest); }
  std::unique_ptr<TaskWait> rest;
};

// Goes on when it is all back.
class EndRest final : private Wakeup {
 public:
  explicit EndRest(TaskWait* rest) : rest_(rest) {}
  bool await_ready() const noexcept { return rest_ == nullptr; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) {
    coroutine_ = coroutine;
    context_ = &context_of(coroutine);
    rest_->end(*this);  // may resume, and end, this awaiter
  }
  void await_resume() const noexcept {}

 private:
  void wake() noexcept override { resumption_.post(coroutine_, *context_); }

  TaskWait* const rest_;
  std::coroutine_handle<> coroutine_;
  const TaskContext* context_ = nullptr;
  Resumption resumption_;
};

}  // namespace detail

// As sleep_for(), but a task gives its permit of the executor's global limit back meanwhile, and has it again, before
// all who wait, when it goes on: for a task that waits for its next try. It keeps that of its group, and so its
// place in order. In a sync_wait() within a task it keeps both.
Task<void> rest_for(Duration duration);

}  // namespace keyway
