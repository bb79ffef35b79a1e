// A submit that a coroutine waits for: see GroupExecutor::submit_async().
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "keyway/error.h"
#include "keyway/task_handle.h"

namespace keyway {

class GroupEngine;

namespace detail {

bool submit_if_room(GroupEngine& engine, TaskCore& task, std::size_t hash);
void wait_for_room(GroupEngine& engine, TaskCore& task, RoomWaiter& waiter);
void give_up_submit(GroupEngine& engine, TaskCore& task);
Error shutdown_error(const TaskCore& task);

}  // namespace detail

template <class T>
class [[nodiscard]] SubmitAwaiter final : private detail::RoomWaiter,
                                          private detail::WaitingCoroutine {
 public:
  SubmitAwaiter(GroupEngine& engine, std::size_t hash, TaskHandle<T> handle)
      : engine_(engine), hash_(hash), handle_(std::move(handle)) {}
  SubmitAwaiter(const SubmitAwaiter&) = delete;
  SubmitAwaiter& operator=(const SubmitAwaiter&) = delete;

  bool await_ready() { return detail::submit_if_room(engine_, handle_.core(), hash_); }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    detail::TaskCore& task = handle_.core();
    task.set_awaits_room(true);
    if (Result<void> begun = begin_wait(coroutine, task); !begun) {
      error_ = begun.error();
      detail::give_up_submit(engine_, task);
      return false;
    }
    detail::wait_for_room(engine_, task, *this);  // may resume, and end, this awaiter
    return true;
  }

  Result<TaskHandle<T>> await_resume() {
    if (error_) return *std::move(error_);
    return std::move(handle_);
  }

 private:
  void room_came(bool came) noexcept override {
    if (!came) error_ = detail::shutdown_error(handle_.core());
    end_wait();
  }

  GroupEngine& engine_;
  const std::size_t hash_;
  TaskHandle<T> handle_;
  std::optional<Error> error_;
};

}  // namespace keyway
