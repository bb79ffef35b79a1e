// The result of a submitted task, to come.
//
//   TaskHandle<Page> handle = executor.submit("vip", "task-1", fetch);
//   GroupResult<Page> result = handle.join();        // or join_for(100ms), or co_await handle
//   std::future<GroupResult<Page>> future = to_future(std::move(handle));   // keyway/future.h
//
// Guarantees:
//   (1) Every wait ends: the task ends in exactly one status, and a wait that could never end is
//       refused with ErrorCode::kWaitCycle; with kNoThread if it would leave no thread for the task.
//       Except a wait that blocks a thread of an executor of yours outside of Keyway's work, which
//       Keyway does not know as one: see keyway/executor_scheduler.h.
//   (2) When a wait returns the result, the task's permits are free again.
//   (3) A wait with a timeout leaves the task alone: kTimedOut with a TimeoutError says that the wait
//       is over, not the task, and the handle can wait again. (Within a task, the wait returns when the
//       waiting task has its permits again, which may be after the timeout.)
//   (4) Dropping a handle does not cancel its task.
// A result can be taken only once, as from a std::future. So only one coroutine at a time can await
// a handle. With g++ 12 a handle must have a name to be awaited: auto handle =
// executor.submit(...); co_await handle;
//
// Thread safety: is_done() and cancel() from any thread; the rest from one thread at a time.
// Lifetime: a handle may outlive its executor, which ends every task; but while the executor is being
// destroyed, no thread may be about to call cancel() or to begin a wait.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <chrono>
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "keyway/detail/task_node.h"
#include "keyway/detail/wait_of.h"
#include "keyway/error.h"
#include "keyway/group_result.h"

namespace keyway {

template <class T>
class TaskHandle;

namespace detail {

// A deadline so far away that it overflows is no deadline.
TimePoint deadline_after(TaskCore& task, Duration timeout);
[[noreturn]] void throw_result_taken(const TaskCore& task);
[[noreturn]] void throw_no_task();
std::exception_ptr wait_error(const TaskCore& task, TaskOwner::Waited waited);

struct CoreRelease {
  void operator()(TaskCore* core) const noexcept { core->release(); }
};
using CoreReference = std::unique_ptr<TaskCore, CoreRelease>;

// A coroutine that is suspended until a task is done, or has entered its queue. If it runs in a
// task, that task gives back the permits that the target needs. A stop request to the coroutine
// ends the wait.
//
// The end of the wait, a stop request and await_suspend() itself may meet on three threads:
//
//   kStarting -> kArmed     arm(): from now on other threads may resume the coroutine
//   kStarting -> kOver      end_wait() before arm(): arm() lets the coroutine go on
//   kStarting -> kStopped   stop() before arm(): arm() calls give_up()
//   kArmed    -> kOver      end_wait(), or stop() after give_up() succeeded: resumes the coroutine
class WaitingCoroutine : private Wakeup {
 protected:
  ~WaitingCoroutine() = default;

  // Stops waiting for the target. False: another thread calls, or has called, end_wait().
  virtual bool give_up() noexcept = 0;

  // An error (kWaitCycle) if the wait could never end.
  template <class Promise>
  Result<void> begin_wait(std::coroutine_handle<Promise> coroutine, TaskCore& target) {
    scheduler_ = &target.owner().scheduler();
    if constexpr (std::is_base_of_v<TaskPromiseBase, Promise>) {
      context_ = &coroutine.promise().context();
      auto begun = begin_linked_wait({.operation = context_->operation, .task = &target});
      if (!begun) return begun.error();
      wait_ = std::move(begun).value();
      if (context_->stop.stop_possible()) on_stop_.emplace(context_->stop, OnStop{this});
    }
    coroutine_ = coroutine;
    return {};
  }
  // Called last in await_suspend(). False: the coroutine goes on at once. True: another thread may
  // have resumed it, so this object must not be touched.
  bool arm() noexcept;
  // The target is done. The coroutine goes on on a thread of its scheduler; if it is not a
  // keyway::Task, on a thread of the target's scheduler. This object may be destroyed when the call
  // returns.
  void end_wait() noexcept;
  // REQUIRES: the coroutine goes on.
  bool was_stopped() {
    on_stop_.reset();  // waits for a callback that another thread is running
    wait_ = nullptr;
    coroutine_ = nullptr;
    return stopped_;
  }
  // For the destructor of a derived class. True if the coroutine is destroyed while it waits: it does not wait any more.
  // REQUIRES: it is not about to go on.
  bool abandon() noexcept;

 private:
  enum Phase : int { kStarting, kArmed, kStopped, kOver };
  struct OnStop {
    WaitingCoroutine* waiting;
    void operator()() const { waiting->stop(); }
  };

  void stop() noexcept;
  // Resumes the coroutine when its task has its permits again. False: it gave none back, and with
  // `inline_too` the caller lets it go on.
  bool go_on(bool inline_too) noexcept;
  void wake() noexcept override;

  std::coroutine_handle<> coroutine_;  // from begin_wait() until it goes on
  const TaskContext* context_ = nullptr;
  Scheduler* scheduler_ = nullptr;
  std::unique_ptr<TaskWait> wait_;
  Atomic<Phase> phase_{kStarting};
  bool stopped_ = false;
  std::optional<std::stop_callback<OnStop>> on_stop_;
  Resumption resumption_;
};

// For executors: makes handles, and reads their tasks.
struct HandleAccess {
  template <class T>
  static TaskHandle<T> make(TaskCore& core) {
    return TaskHandle<T>(core);
  }
  template <class T>
  static TaskCore& core(const TaskHandle<T>& handle) {
    return handle.core();
  }
  // REQUIRES: done(). Throws if a queue threshold turned the task away under RejectionPolicy::kAbort.
  template <class T>
  static GroupResult<T> take(TaskHandle<T>& handle) {
    return handle.take();
  }
  // REQUIRES: done().
  template <class T>
  static GroupResult<T> take_quietly(TaskHandle<T>& handle) {
    return handle.take_quietly();
  }
};

}  // namespace detail

template <class T>
class [[nodiscard]] TaskHandle {
 public:
  TaskHandle() = default;
  TaskHandle(TaskHandle&&) noexcept = default;
  TaskHandle& operator=(TaskHandle&&) noexcept = default;

  std::string_view group_key() const { return core().group_key(); }
  std::string_view task_id() const { return core().task_id(); }

  bool is_done() const { return core().done(); }

  // A waiting task ends kCancelled at once and leaves the queue. A running one gets a stop request
  // if it takes a std::stop_token or is a coroutine. False if neither could be done.
  bool cancel() { return !core().done() && core().owner().cancel(core()); }

  // Waits for the task. Throws RejectedError if a queue threshold turned it away under RejectionPolicy::kAbort, and
  // CancelledError if `stop` is requested first. A task that a shutdown or a conflation rejected has a kRejected result.
  GroupResult<T> await(std::stop_token stop = {}) { return wait(nullptr, stop, OnStop::kThrow); }
  GroupResult<T> await_for(Duration timeout, std::stop_token stop = {}) {
    const TimePoint deadline = detail::deadline_after(core(), timeout);
    return wait(&deadline, stop, OnStop::kThrow);
  }

  // The same, but a stop gives a kCancelled result instead of an exception.
  GroupResult<T> join(std::stop_token stop = {}) { return wait(nullptr, stop, OnStop::kReturn); }
  GroupResult<T> join_for(Duration timeout, std::stop_token stop = {}) {
    const TimePoint deadline = detail::deadline_after(core(), timeout);
    return wait(&deadline, stop, OnStop::kReturn);
  }

  // In a coroutine: GroupResult<T> result = co_await handle; Throws CancelledError if stop of the
  // awaiting task is requested. The awaited task goes on, so it must not refer to variables of the
  // awaiting one. Throws Exception (kResultTaken) if another coroutine awaits this handle. A coroutine of another library
  // may be destroyed while the task has not ended, but not when it is about to go on: that ends the program.
  // Bounded: co_await with_timeout(1s, handle); see keyway/when_any.h.
  class Awaiter;
  Awaiter operator co_await() & { return Awaiter(*this); }
  // GroupResult<T> result = co_await executor.submit(key, callable); not with g++ 12, which destroys the temporaries of
  // such an expression twice, the callable's captures among them.
  Awaiter operator co_await() && {
    static_assert(detail::kIsSafeInAwait<TaskHandle>,
                  "name the handle first: auto handle = ...; co_await handle; g++ 12 destroys the "
                  "temporaries of a co_await expression twice");
    return Awaiter(*this);
  }

 private:
  friend struct detail::HandleAccess;
  friend struct detail::WaitOf<TaskHandle>;
  class EndAwaiter;
  friend class SerialDispatcher;
  template <class>
  friend class SubmitAwaiter;
  enum class OnStop { kThrow, kReturn };

  explicit TaskHandle(detail::TaskCore& core) : core_(&core) {}

  detail::TaskCore& core() const {
    if (core_ == nullptr) detail::throw_no_task();
    return *core_;
  }

  GroupResult<T> wait(const TimePoint* deadline, const std::stop_token& stop, OnStop on_stop) {
    using Waited = detail::TaskOwner::Waited;
    detail::TaskCore& task = core();
    if (task.done()) return take();
    const Result<Waited> waited = task.owner().wait(task, deadline, stop);
    if (!waited) throw Exception(waited.error());
    if (*waited == Waited::kDone) return take();
    std::exception_ptr error = detail::wait_error(task, *waited);
    if (*waited == Waited::kStopped && on_stop == OnStop::kThrow) std::rethrow_exception(error);
    return result(*waited == Waited::kTimedOut ? TaskStatus::kTimedOut : TaskStatus::kCancelled,
                  std::move(error));
  }

  // REQUIRES: done().
  GroupResult<T> take() {
    GroupResult<T> taken = take_quietly();
    if (taken.status == TaskStatus::kRejected && taken.error) std::rethrow_exception(taken.error);
    return taken;
  }

  // The same for execute_all(), without the exception for a rejected task.
  GroupResult<T> take_quietly() {
    auto& task = static_cast<detail::ValueNode<T>&>(core());
    if (!task.take_result()) detail::throw_result_taken(task);
    GroupResult<T> taken = result(task.status(), nullptr);
    taken.started = task.started();
    taken.ended = task.ended();
    if (taken.status == TaskStatus::kRejected) taken.rejection = task.rejection();
    if (taken.status != TaskStatus::kSuccess) {
      taken.error = task.operations().error(task);
    } else if constexpr (std::is_void_v<T>) {
      taken.stored.stored = true;
    } else {
      taken.stored.keep(std::move(task.kept()));
    }
    return taken;
  }

  GroupResult<T> result(TaskStatus status, std::exception_ptr error) const {
    GroupResult<T> made;
    made.group_key = group_key();
    made.task_id = task_id();
    made.status = status;
    made.error = std::move(error);
    return made;
  }

  detail::CoreReference core_;
};

// Waits for the end of the task, and leaves its result in the handle.
template <class T>
class TaskHandle<T>::EndAwaiter : private detail::Continuation, private detail::WaitingCoroutine {
 public:
  explicit EndAwaiter(TaskHandle& handle) : handle_(handle) {}
  ~EndAwaiter() { abandon(); }

  bool await_ready() const { return handle_.is_done(); }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    detail::TaskCore& task = handle_.core();
    using Claim = detail::TaskCore::Claim;
    if (const Claim claim = task.claim_continuation(); claim != Claim::kClaimed) {
      if (claim == Claim::kClaimedByAnother) refusal_ = detail::awaited_already(task);
      return false;
    }
    if (Result<void> begun = begin_wait(coroutine, task); !begun) {
      refusal_ = std::move(begun).error();
      task.remove_continuation();
      return false;
    }
    if (!task.set_continuation(*this)) end_wait();
    return arm();  // another thread may resume the coroutine and destroy this awaiter meanwhile
  }

  // Throws CancelledError if stop of the awaiting task was requested.
  void await_resume() {
    if (refusal_) throw Exception(*std::move(refusal_));
    if (was_stopped()) {
      std::rethrow_exception(
          detail::wait_error(handle_.core(), detail::TaskOwner::Waited::kStopped));
    }
  }

 protected:
  TaskHandle& handle() { return handle_; }

 private:
  void task_done() noexcept override { end_wait(); }
  bool give_up() noexcept override { return handle_.core().remove_continuation(); }

  TaskHandle& handle_;
  std::optional<Error> refusal_;
};

template <class T>
class TaskHandle<T>::Awaiter final : public EndAwaiter {
 public:
  using EndAwaiter::EndAwaiter;
  GroupResult<T> await_resume() {
    EndAwaiter::await_resume();
    return this->handle().take();
  }
};

namespace detail {

// A result that was not awaited to its end stays in the handle.
template <class T>
struct WaitOf<TaskHandle<T>> {
  using Value = GroupResult<T>;
  explicit WaitOf(TaskHandle<T>& its_handle) : handle(&its_handle) {}
  Task<void> begin() { return until_end(handle); }
  Value end(std::monostate) { return handle->take(); }
  void timed_out(Duration) const {
    if (handle->is_done()) return;
    std::rethrow_exception(wait_error(HandleAccess::core(*handle), TaskOwner::Waited::kTimedOut));
  }

  static Task<void> until_end(TaskHandle<T>* handle) {
    typename TaskHandle<T>::EndAwaiter awaiter(*handle);
    co_await awaiter;
  }
  TaskHandle<T>* handle;
};

}  // namespace detail

}  // namespace keyway
