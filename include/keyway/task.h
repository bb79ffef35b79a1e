// Coroutines that run under the same limits as plain callables, and hold no thread while they wait.
//
//   keyway::Task<int> fetch(Client& client) {
//     co_await keyway::sleep_for(10ms);                // no thread sleeps
//     auto [a, b] = co_await keyway::when_all(client.get("a"), client.get("b"));
//     co_return a + b;
//   }
//   auto handle = executor.submit("vip", "task-1", [&] { return fetch(client); });
//
// A Task starts when it is awaited (or submitted), and runs until its first suspension on the
// thread that starts it. It inherits what surrounds it: the scheduler that resumes it and the stop
// token that asks it to end.
//
// Guarantees:
//   (1) Awaiting a task that ends at once costs no stack: control passes by symmetric transfer. (g++
//       does so only with -foptimize-sibling-calls, which -O2 includes, and below that keyway::runtime and the
//       .pc files give. A program that is built with neither must give it itself.)
//   (2) What a task throws reaches whoever awaits it. when_all() waits for all of its tasks, then
//       throws what the first of them (in order of arguments) threw.
//   (3) When stop is requested, sleep_for() wakes at once and throws CancelledError.
//
// Thread safety: one thread at a time per task; it may be another after each co_await.
// Lifetime: a Task owns its coroutine; one that was never awaited is destroyed unrun.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "keyway/detail/inline_run.h"
#include "keyway/detail/operation.h"
#include "keyway/detail/task_awaiters.h"
#include "keyway/detail/task_promise.h"
#include "keyway/error.h"
#include "keyway/scheduler.h"

namespace keyway {

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using value_type = T;

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  // Starts the task and waits for it. REQUIRES: called once; the task was not moved from.
  auto operator co_await() && noexcept { return Awaiter{coroutine()}; }
  template <class U = T>
  auto operator co_await() & noexcept {
    static_assert(!std::is_same_v<U, U>, "a Task is awaited once: write co_await std::move(task)");
    return Awaiter{coroutine_};
  }

 private:
  friend promise_type;
  friend struct detail::TaskAccess;
  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  struct Awaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
      promise_type& promise = coroutine.promise();
      promise.check_not_started();
      promise.context_ = &detail::context_of(awaiting);
      promise.awaiting_ = awaiting;
      return coroutine;
    }
    T await_resume() { return coroutine.promise().take(); }
    std::coroutine_handle<promise_type> coroutine;
  };

  std::coroutine_handle<promise_type> coroutine() const noexcept {
    KEYWAY_CHECK(coroutine_ != nullptr, "a Task that was moved from is awaited or run");
    return coroutine_;
  }

  std::coroutine_handle<promise_type> coroutine_;
};

namespace detail {

template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

// What a callable gives that returns R: that, or the value of its coroutine.
template <class R>
struct Unwrapped {
  using type = R;
  static constexpr bool kIsCoroutine = false;
};
template <class T>
struct Unwrapped<Task<T>> {
  using type = T;
  static constexpr bool kIsCoroutine = true;
};

// A callable that is written into a co_await expression: g++ 12 destroys such a temporary twice, if there is anything
// to destroy.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
template <class F>
inline constexpr bool kIsSafeInAwait =
    std::is_lvalue_reference_v<F> || std::is_trivially_destructible_v<std::remove_reference_t<F>>;
#else
template <class F>
inline constexpr bool kIsSafeInAwait = true;
#endif

// How executors start a task without a coroutine of their own.
struct TaskAccess {
  template <class T>
  static void start(Task<T>& task, const TaskContext& context, Completion& completion) {
    resume_as(context.operation, prepare(task, context, completion));
  }
  // For a caller that is the operation of the context already.
  template <class T>
  static void start_here(Task<T>& task, const TaskContext& context, Completion& completion) {
    prepare(task, context, completion).resume();
  }
  template <class T>
  static auto prepare(Task<T>& task, const TaskContext& context, Completion& completion) {
    const auto coroutine = task.coroutine();
    auto& promise = coroutine.promise();
    promise.check_not_started();
    promise.context_ = &context;
    promise.completion_ = &completion;
    return coroutine;
  }
  template <class T>
  static void start_branch(Task<T>& task, const TaskContext& context, WhenAllLatch& latch) {
    latch.starts_one();
    start(task, context, latch);
  }
  // REQUIRES: completion.done() was called.
  template <class T>
  static T take(Task<T>& task) {
    return task.coroutine_.promise().take();
  }
};

template <class T>
using NonVoid = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
NonVoid<T> take_non_void(Task<T>& task) {
  if constexpr (std::is_void_v<T>) {
    TaskAccess::take(task);
    return {};
  } else {
    return TaskAccess::take(task);
  }
}

}  // namespace detail

// Waits without a thread. Throws CancelledError if stop is, or was, requested.
[[nodiscard("write co_await in front of it")]] inline detail::SleepAwaiter sleep_for(
    Duration duration) {
  return detail::SleepAwaiter(duration);
}

// The stop token of the task that awaits this.
[[nodiscard("write co_await in front of it")]] inline detail::StopTokenAwaiter
current_stop_token() {
  return {};
}

// Goes on on a thread of the task's scheduler, behind other ready work. To be awaited after an awaitable of another
// library: that resumes the task on a thread on which Keyway does not know it, so a blocking wait or lock() there would
// belong to the thread, and not to the task with its permits and locks.
//
//   Page page = co_await other_library.get(url);
//   co_await keyway::reschedule();
[[nodiscard("write co_await in front of it")]] inline detail::RescheduleAwaiter reschedule() {
  return {};
}

// Runs the tasks side by side; ends when all have ended. A void task gives std::monostate.
// For task handles and lock_async(): keyway/when_any.h. sleep_for() and reschedule() give no Task: await them in a
// coroutine of yours, and give that.
template <class... T>
Task<std::tuple<detail::NonVoid<T>...>> when_all(Task<T>... tasks) {
  std::vector<detail::TaskContext> branches;
  branches.reserve(sizeof...(T));
  auto start = [&](const detail::TaskContext& context, detail::WhenAllLatch& latch) {
    (detail::TaskAccess::start_branch(tasks, branches.emplace_back(detail::branch_of(context)),
                                      latch),
     ...);
  };
  co_await detail::WhenAllAwaiter<decltype(start)>{start, detail::WhenAllLatch(sizeof...(T))};
  // Braces: the first task that failed, in order of arguments, is the one that throws.
  co_return std::tuple<detail::NonVoid<T>...>{detail::take_non_void(tasks)...};
}

template <class T>
Task<std::vector<detail::NonVoid<T>>> when_all(std::vector<Task<T>> tasks) {
  std::vector<detail::TaskContext> branches;
  branches.reserve(tasks.size());
  auto start = [&](const detail::TaskContext& context, detail::WhenAllLatch& latch) {
    for (Task<T>& task : tasks) {
      detail::TaskAccess::start_branch(task, branches.emplace_back(detail::branch_of(context)),
                                       latch);
    }
  };
  co_await detail::WhenAllAwaiter<decltype(start)>{start, detail::WhenAllLatch(tasks.size())};
  std::vector<detail::NonVoid<T>> results;
  results.reserve(tasks.size());
  for (Task<T>& task : tasks) results.push_back(detail::take_non_void(task));
  co_return results;
}

namespace detail {

// Runs a task that hears of this stop token instead of the one that surrounds it.
template <class T>
Task<T> with_stop(std::stop_token stop, Task<T> task) {
  std::optional<TaskContext> part;
  auto start = [&](const TaskContext& context, WhenAllLatch& latch) {
    part.emplace(branch_of(context));
    part->stop = stop;
    TaskAccess::start(task, *part, latch);
  };
  co_await WhenAllAwaiter<decltype(start)>{start, WhenAllLatch(1)};
  co_return TaskAccess::take(task);
}

// Blocks the calling thread until the coroutine is done. Throws Exception (kWaitCycle) if the wait
// could never end, because the thread holds a lock that the coroutine needs. REQUIRES: the thread
// belongs to no scheduler.
class SyncWait final : public Completion {
 public:
  SyncWait(Scheduler& scheduler, const Operation& operation);
  ~SyncWait();
  std::coroutine_handle<> done() noexcept override;
  void wait();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace detail

// Runs a task, and blocks the calling thread until it has ended: for main() and for tests. The task
// goes on on `scheduler`'s threads; if the calling thread belongs to a scheduler, the task goes on
// on that thread instead.
template <class T>
T sync_wait(Scheduler& scheduler, Task<T> task, std::stop_token stop = {}) {
  if (Scheduler::current() != nullptr) {
    detail::InlineRun run(scheduler);
    const detail::Operation& whole = detail::Operation::current();
    detail::TaskContext context{&run, std::move(stop),
                                detail::TaskOperation(&whole, whole.task(), &run)};
    context.operation.confine();
    run.begin(context.operation);
    detail::TaskAccess::start(task, context, run);
    run.wait();
    return detail::TaskAccess::take(task);
  }
  const detail::TaskContext context{
      &scheduler, std::move(stop),
      detail::TaskOperation(&detail::Operation::current(), nullptr, &scheduler)};
  detail::SyncWait completion(scheduler, context.operation);
  detail::TaskAccess::start(task, context, completion);
  completion.wait();
  return detail::TaskAccess::take(task);
}

}  // namespace keyway
