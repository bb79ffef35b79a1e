// A submit that a coroutine waits for: see GroupExecutor::submit_async().
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <coroutine>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "keyway/error.h"
#include "keyway/rejection_reason.h"
#include "keyway/task_handle.h"

namespace keyway {

class GroupEngine;

namespace detail {

bool submit_if_room(GroupEngine& engine, TaskCore& task, std::size_t hash);
void wait_for_room(GroupEngine& engine, TaskCore& task, RoomWaiter& waiter);
bool stop_waiting_for_room(GroupEngine& engine, TaskCore& task);
void give_up_submit(GroupEngine& engine, TaskCore& task, RejectionReason reason);
Error shutdown_error(const TaskCore& task);
// The message says what the submitter can do.
Error rejection_error(RejectionReason reason, std::string_view group_key, std::string_view task_id);
Error stopped_submit_error(const TaskCore& task);
// The error of a task that ended RejectionReason::kConflated; nullopt for any other task.
std::optional<Error> conflated_error(const TaskCore& task);
// REQUIRES: no executor has seen the task.
void drop_unsubmitted(TaskCore& task) noexcept;

}  // namespace detail

template <class T>
class [[nodiscard]] SubmitAwaiter final : private detail::RoomWaiter,
                                          private detail::WaitingCoroutine {
 public:
  SubmitAwaiter(GroupEngine& engine, std::size_t hash, TaskHandle<T> handle)
      : engine_(engine), hash_(hash), handle_(std::move(handle)) {}
  SubmitAwaiter(const SubmitAwaiter&) = delete;
  SubmitAwaiter& operator=(const SubmitAwaiter&) = delete;

  // Destroys the task if the awaiter was never awaited: it was not submitted. If the coroutine is destroyed while it waits
  // for room, the task ends as one whose submit was stopped.
  ~SubmitAwaiter() {
    if (abandon()) {
      detail::give_up_submit(engine_, handle_.core(), RejectionReason::kStopped);
    } else if (!submitted_ && handle_.core_ != nullptr) {
      detail::drop_unsubmitted(handle_.core());
    }
  }

  bool await_ready() {
    submitted_ = true;
    return detail::submit_if_room(engine_, handle_.core(), hash_);
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    detail::TaskCore& task = handle_.core();
    task.set_awaits_room(true);
    if (Result<void> begun = begin_wait(coroutine, task); !begun) {
      error_ = begun.error();
      detail::give_up_submit(engine_, task, RejectionReason::kWaitCycle);
      return false;
    }
    detail::wait_for_room(engine_, task, *this);
    return arm();  // another thread may resume the coroutine and destroy this awaiter meanwhile
  }

  // An error (kCancelled) if stop of the awaiting task was requested.
  Result<TaskHandle<T>> await_resume() {
    if (was_stopped()) {
      error_ = detail::stopped_submit_error(handle_.core());
      detail::give_up_submit(engine_, handle_.core(), RejectionReason::kStopped);
    }
    if (!error_) error_ = detail::conflated_error(handle_.core());
    if (error_) return *std::move(error_);
    return std::move(handle_);
  }

 private:
  void room_came(bool came) noexcept override {
    if (!came) error_ = detail::shutdown_error(handle_.core());
    end_wait();
  }
  bool give_up() noexcept override {
    return detail::stop_waiting_for_room(engine_, handle_.core());
  }

  GroupEngine& engine_;
  const std::size_t hash_;
  TaskHandle<T> handle_;
  bool submitted_ = false;
  std::optional<Error> error_;
};

namespace detail {

// For g++ 12: a submit whose callable would be destroyed twice as a temporary of a co_await expression. It is awaited by
// its name.
template <class T>
class [[nodiscard]] NamedSubmitAwaiter {
 public:
  NamedSubmitAwaiter(GroupEngine& engine, std::size_t hash, TaskHandle<T> handle)
      : awaiter_(engine, hash, std::move(handle)) {}

  // g++ 12 would copy an awaiter that is returned by reference.
  class Awaiter {
   public:
    explicit Awaiter(SubmitAwaiter<T>& awaiter) : awaiter_(awaiter) {}
    bool await_ready() { return awaiter_.await_ready(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> coroutine) {
      return awaiter_.await_suspend(coroutine);
    }
    Result<TaskHandle<T>> await_resume() { return awaiter_.await_resume(); }

   private:
    SubmitAwaiter<T>& awaiter_;
  };

  Awaiter operator co_await() & { return Awaiter(awaiter_); }
  Awaiter operator co_await() && {
    static_assert(!std::is_same_v<T, T>,
                  "g++ 12 would destroy this callable twice: name the call: auto submit = "
                  "executor.submit_async(...); auto handle = co_await submit;");
    return Awaiter(awaiter_);
  }

 private:
  SubmitAwaiter<T> awaiter_;
};

// What submit_async() gives for a callable F.
template <class F>
using SubmitAwaiterOf =
    std::conditional_t<kIsSafeInAwait<F>, SubmitAwaiter<TaskValue<std::decay_t<F>>>,
                       NamedSubmitAwaiter<TaskValue<std::decay_t<F>>>>;

}  // namespace detail

}  // namespace keyway
