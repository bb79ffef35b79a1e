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
//       does so only with -foptimize-sibling-calls, which -O2 includes and -Og does not.)
//   (2) What a task throws reaches whoever awaits it. when_all() waits for all of its tasks, then
//       throws what the first of them (in order of arguments) threw.
//   (3) When stop is requested, sleep_for() wakes at once and throws CancelledError.
//
// Thread safety: one thread at a time per task; it may be another after each co_await.
// Lifetime: a Task owns its coroutine; one that was never awaited is destroyed unrun.
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "keyway/detail/atomic.h"
#include "keyway/detail/block_pool.h"
#include "keyway/detail/check.h"
#include "keyway/detail/operation.h"
#include "keyway/error.h"
#include "keyway/scheduler.h"

namespace keyway {

template <class T = void>
class Task;

namespace detail {

struct TaskAccess;

// What a coroutine inherits from whoever awaits it.
struct TaskContext {
  Scheduler* scheduler = nullptr;
  std::stop_token stop;
  TaskOperation operation;
};

// One of several that run side by side in another one's place.
inline TaskContext branch_of(const TaskContext& context) {
  const Operation& whole = context.operation;
  return {context.scheduler, context.stop, TaskOperation(&whole, whole.task(), context.scheduler)};
}

// Runs it until it is suspended.
void resume_as(const Operation& operation, std::coroutine_handle<> coroutine);
// The calling coroutine resumes another one next, of which it was a part.
void continue_as(const Operation& operation) noexcept;

// Told when a coroutine that nobody awaits by co_await has ended; says what to resume.
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
    context.scheduler->post(*this);
  }
  // For a coroutine that is not a keyway::Task.
  void post(std::coroutine_handle<> coroutine, Scheduler& scheduler) {
    coroutine_ = coroutine;
    scheduler.post(*this);
  }
  void run(Turn& turn) override;

 private:
  std::coroutine_handle<> coroutine_;
  const TaskContext* context_ = nullptr;
};

class TaskPromiseBase {
 public:
  // Frames come and go as tasks do.
  static void* operator new(std::size_t bytes) { return allocate_block(bytes); }
  static void operator delete(void* frame, std::size_t bytes) { deallocate_block(frame, bytes); }

  std::suspend_always initial_suspend() noexcept { return {}; }

  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) noexcept {
      TaskPromiseBase& promise = ended.promise();
      return promise.completion_ != nullptr ? promise.completion_->done() : promise.awaiting_;
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
  const TaskContext* context_ = nullptr;
  Completion* completion_ = nullptr;
  std::coroutine_handle<> awaiting_;
};

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

  // Starts the task and waits for it. REQUIRES: called once.
  auto operator co_await() && noexcept { return Awaiter{coroutine_}; }

 private:
  friend promise_type;
  friend struct detail::TaskAccess;
  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  struct Awaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
      promise_type& promise = coroutine.promise();
      promise.context_ = &awaiting.promise().context();
      promise.awaiting_ = awaiting;
      return coroutine;
    }
    T await_resume() { return coroutine.promise().take(); }
    std::coroutine_handle<promise_type> coroutine;
  };

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
    auto& promise = task.coroutine_.promise();
    promise.context_ = &context;
    promise.completion_ = &completion;
    resume_as(context.operation, task.coroutine_);
  }
  // REQUIRES: completion.done() was called.
  template <class T>
  static T take(Task<T>& task) {
    return task.coroutine_.promise().take();
  }
};

class SleepAwaiter final : public Timer {
 public:
  explicit SleepAwaiter(Duration duration) : duration_(duration) {}

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    return suspend(coroutine, coroutine.promise().context());
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

struct StopTokenAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    token = coroutine.promise().context().stop;
    return false;
  }
  std::stop_token await_resume() { return std::move(token); }
  std::stop_token token;
};

// Counts tasks that run side by side; the last one to end resumes whoever waits for all.
class WhenAllLatch final : public Completion {
 public:
  explicit WhenAllLatch(std::size_t tasks) : left_(tasks + 1) {}

  // True if some are still at work: the caller suspends.
  bool wait(std::coroutine_handle<> waiting, const Operation& operation) noexcept {
    waiting_ = waiting;
    operation_ = &operation;
    // acq_rel: what each task wrote is seen by whoever comes last.
    return left_.fetch_sub(1, std::memory_order_acq_rel) != 1;
  }
  std::coroutine_handle<> done() noexcept override {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return std::noop_coroutine();
    continue_as(*operation_);
    return waiting_;
  }

 private:
  Atomic<std::size_t> left_;
  std::coroutine_handle<> waiting_;
  const Operation* operation_ = nullptr;
};

template <class Start>
struct WhenAllAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    const TaskContext& context = waiting.promise().context();
    start(context, latch);
    return latch.wait(waiting, context.operation);
  }
  void await_resume() const noexcept {}

  Start start;
  WhenAllLatch latch;
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
inline detail::SleepAwaiter sleep_for(Duration duration) { return detail::SleepAwaiter(duration); }

// The stop token of the task that awaits this.
inline detail::StopTokenAwaiter current_stop_token() { return {}; }

// Runs the tasks side by side; ends when all have ended. A void task gives std::monostate.
template <class... T>
Task<std::tuple<detail::NonVoid<T>...>> when_all(Task<T>... tasks) {
  std::vector<detail::TaskContext> branches;
  branches.reserve(sizeof...(T));
  auto start = [&](const detail::TaskContext& context, detail::WhenAllLatch& latch) {
    (detail::TaskAccess::start(tasks, branches.emplace_back(detail::branch_of(context)), latch),
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
      detail::TaskAccess::start(task, branches.emplace_back(detail::branch_of(context)), latch);
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

// Starts `task` by `start`, with a completion, and blocks the calling thread until that is done.
// Throws Exception (kWaitCycle, kNoThread) if it could never end.
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

// Runs a task to its end and blocks the calling thread meanwhile: for main() and for tests.
template <class T>
T sync_wait(Scheduler& scheduler, Task<T> task, std::stop_token stop = {}) {
  const detail::TaskContext context{
      &scheduler, std::move(stop),
      detail::TaskOperation(&detail::Operation::current(), nullptr, &scheduler)};
  detail::SyncWait completion(scheduler, context.operation);
  detail::TaskAccess::start(task, context, completion);
  completion.wait();
  return detail::TaskAccess::take(task);
}

}  // namespace keyway
