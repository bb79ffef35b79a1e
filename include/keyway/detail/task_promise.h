// The promise of a Task: its context and its result.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <variant>

#include "keyway/detail/block_pool.h"
#include "keyway/detail/check.h"
#include "keyway/detail/operation.h"
#include "keyway/scheduler.h"

namespace keyway {

template <class T = void>
class Task;

namespace detail {

struct TaskAccess;
class TaskWait;

// What a coroutine inherits from its awaiter.
struct TaskContext {
  Scheduler* scheduler = nullptr;
  std::stop_token stop;
  TaskOperation operation;
};

// The context of a branch: one of several coroutines that run concurrently as parts of an
// operation.
inline TaskContext branch_of(const TaskContext& context) {
  const Operation& whole = context.operation;
  TaskContext branch{context.scheduler, context.stop,
                     TaskOperation(&whole, whole.task(), context.scheduler)};
  if (whole.is_confined()) branch.operation.confine();
  return branch;
}

// Resumes the coroutine, and returns when it is suspended or has ended.
void resume_as(const Operation& operation, std::coroutine_handle<> coroutine);
// Calls call(argument) as the operation.
void call_as(const Operation& operation, void (*call)(void*), void* argument);
// The same for a coroutine that its submitter starts: the submitter cannot go on before the call returns.
void call_before_caller_goes_on(const Operation& operation, void (*call)(void*), void* argument);
// The calling coroutine resumes `operation` next, of which it was a part.
void continue_as(const Operation& operation) noexcept;
// The operation, that of a task's coroutine, is about to be destroyed. What the calling thread runs next is not part of it.
void leave_operation(const Operation& operation) noexcept;
// The operation starts a branch, which runs until its first suspension before the operation goes on.
void branch_begins(const Operation& whole);
// A branch is about to end, or the operation, to wait for its branches. Not called for the last of
// all these: the operation goes on after it.
void branch_ends(const Operation& whole) noexcept;
// The task of the operation gives its global permit back. Null: it has no permits.
std::unique_ptr<TaskWait> begin_rest(const Operation& operation);
// Calls start(argument), which starts branches of the operation.
void start_branches(const Operation& whole, void (*start)(void*), void* argument);

// Called when a coroutine that was started without co_await has ended. Returns the coroutine to
// resume.
class Completion {
 public:
  virtual std::coroutine_handle<> done() noexcept = 0;

 protected:
  ~Completion() = default;
};

// Resumes a coroutine on a thread of its scheduler.
class Resumption final : public Runnable {
 public:
  void post(std::coroutine_handle<> coroutine, const TaskContext& context) {
    coroutine_ = coroutine;
    context_ = &context;
    context.scheduler->post_from_outside(*this);
  }
  // For a coroutine that is not a keyway::Task.
  void post(std::coroutine_handle<> coroutine, Scheduler& scheduler) {
    coroutine_ = coroutine;
    scheduler.post_from_outside(*this);
  }
  void run(Turn& turn) override;

 private:
  std::coroutine_handle<> coroutine_;
  const TaskContext* context_ = nullptr;
};

class TaskPromiseBase {
 public:
  // Frames are allocated as tasks are, from per-thread caches.
  static void* operator new(std::size_t bytes) { return allocate_block(bytes); }
  static void operator delete(void* frame, std::size_t bytes) { deallocate_block(frame, bytes); }

  std::suspend_always initial_suspend() noexcept { return {}; }

  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) noexcept {
      TaskPromiseBase& promise = ended.promise();
      if (promise.completion_ == nullptr) return promise.awaiting_;
      promise.context_->operation.pass_locks_on();
      return promise.completion_->done();
    }
    void await_resume() noexcept {}
  };
  Final final_suspend() noexcept { return {}; }

  const TaskContext& context() const {
    KEYWAY_CHECK(context_ != nullptr, "a coroutine runs that was not submitted or awaited");
    return *context_;
  }

 private:
  template <class>
  friend class keyway::Task;
  friend struct TaskAccess;
  void check_not_started() const {
    KEYWAY_CHECK(context_ == nullptr, "a Task is awaited or run a second time; make another one");
  }

  const TaskContext* context_ = nullptr;
  Completion* completion_ = nullptr;
  std::coroutine_handle<> awaiting_;
};

// The context of a coroutine that awaits something.
template <class Promise>
const TaskContext& context_of(std::coroutine_handle<Promise> coroutine) {
  constexpr bool kIsTask = std::is_base_of_v<TaskPromiseBase, Promise>;
  static_assert(kIsTask,
                "only a keyway::Task can await this; in a coroutine of another library, submit() a "
                "keyway::Task to an executor and await its handle, or call sync_wait()");
  if constexpr (kIsTask) {
    return coroutine.promise().context();
  } else {
    std::terminate();  // does not compile
  }
}

template <class T>
class TaskPromise final : public TaskPromiseBase {
 public:
  Task<T> get_return_object();
  void unhandled_exception() noexcept { result_.template emplace<2>(std::current_exception()); }
  template <class U>
    requires std::is_convertible_v<U&&, T>
  void return_value(U&& value) {
    if constexpr (std::is_reference_v<T>) {
      result_.template emplace<1>(std::addressof(value));
    } else {
      result_.template emplace<1>(std::forward<U>(value));
    }
  }
  T take() {
    if (result_.index() == 2) std::rethrow_exception(std::get<2>(result_));
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*std::get<1>(result_));
    } else {
      return std::move(std::get<1>(result_));
    }
  }

 private:
  using Stored = std::conditional_t<std::is_reference_v<T>, std::remove_reference_t<T>*, T>;
  std::variant<std::monostate, Stored, std::exception_ptr> result_;
};

template <>
class TaskPromise<void> final : public TaskPromiseBase {
 public:
  Task<void> get_return_object();
  void unhandled_exception() noexcept { error_ = std::current_exception(); }
  void return_void() noexcept {}
  void take() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

}  // namespace detail
}  // namespace keyway
