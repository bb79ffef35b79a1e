// Runs Keyway's work on threads that are not Keyway's: anything with execute(f).
//
//   boost::asio::thread_pool threads(8);
//   GroupExecutor executor(policy, threads.get_executor(), {.threads = 8});
//
// An executor may run its argument within execute(), as those of Asio do on their own threads. Keyway then calls
// execute() again from another thread, which takes longer; for Asio, avoid it with
//
//   boost::asio::require(threads.get_executor(), boost::asio::execution::blocking.never)
//
// execute() must queue its argument without waiting for tasks: Keyway also calls it on the executor's own threads, between taking a
// task and running it. So an executor with a bounded queue must not block its own threads there until the queue has room.
//
// Keyway knows a thread of the executor only while it runs Keyway's work. In any other handler on such a thread do not block
// on a handle: if it is the last free thread, the task never begins, and the wait is not refused. co_await the handle (a
// boost::asio::awaitable cannot: see examples/asio_coroutines.cc), or join it in a task, where such a wait is an error
// (kNoThread):
//
//   boost::asio::post(threads, [&] { use(executor.submit("vip", fetch).join()); });     // may wait for ever
//   (void)executor.post("users", [&] { use(executor.submit("vip", fetch).join()); });
//
// The executor must be able to run work until the GroupExecutor is destroyed, even after it had
// none for a while: it does not know of tasks that sleep or wait for a rate limit. An Asio
// io_context returns from run() as soon as it has no work; then such a task never ends, and
// ~GroupExecutor waits for ever. Hold a work guard meanwhile:
//
//   auto guard = boost::asio::make_work_guard(io);
//   std::thread runs([&] { io.run(); });
//   { GroupExecutor executor(policy, io.get_executor()); ... }
//   guard.reset();
//   runs.join();
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "keyway/scheduler.h"

namespace keyway {

struct ExecutorOptions {
  // The maximum number of threads of the executor; 0: unknown, which counts as one. A wait in a
  // task that would leave no thread for its target is refused (ErrorCode::kNoThread).
  //
  // Each GroupExecutor that is made from an executor counts the threads for itself. If tasks of one GroupExecutor wait for tasks
  // of another one on the same threads, both must have the same Scheduler, or such waits may block all of the threads:
  //   auto scheduler = make_executor_scheduler(threads.get_executor(), {.threads = 8});
  //   GroupExecutor readers(policy, *scheduler), writers(policy, *scheduler);
  unsigned threads = 0;
};

namespace detail {

template <class E>
concept HasExecute =
    requires(E& executor, std::function<void()> work) { executor.execute(std::move(work)); };
// A handle to an executor, as in Asio: cheap to copy, and every copy refers to the same threads.
template <class E>
concept ExecutorHandle = std::copy_constructible<E> && HasExecute<const E>;

}  // namespace detail

// A type with execute(f), which runs the callable f exactly once, on any thread. If execute()
// throws, it must not run f: then Keyway runs f on a thread of its own, and no task is lost. A copyable
// type with a const execute(), and a temporary, is taken by value. Any other executor is taken by
// reference, and must outlive its user. An execution context of Asio has none: pass
// io_context.get_executor().
template <class E>
concept Executor = !std::derived_from<std::remove_cvref_t<E>, Scheduler> &&
                   detail::HasExecute<std::remove_reference_t<E>> &&
                   (std::is_lvalue_reference_v<E> || std::copy_constructible<std::decay_t<E>>);

// Each ready item becomes a call of `execute`, which must run its argument exactly once, on any thread. Timers fire on a thread of the scheduler's own. The destructor waits until every
// argument has run.
std::unique_ptr<Scheduler> make_executor_scheduler(
    std::function<void(std::function<void()>)> execute, ExecutorOptions options = {});

template <Executor E>
std::unique_ptr<Scheduler> make_executor_scheduler(E&& executor, ExecutorOptions options = {}) {
  using Execute = std::function<void(std::function<void()>)>;
  if constexpr (!std::is_lvalue_reference_v<E> || detail::ExecutorHandle<std::decay_t<E>>) {
    return make_executor_scheduler(
        Execute([kept = std::decay_t<E>(std::forward<E>(executor))](
                    std::function<void()> work) mutable { kept.execute(std::move(work)); }),
        options);
  } else {
    return make_executor_scheduler(
        Execute([&executor](std::function<void()> work) { executor.execute(std::move(work)); }),
        options);
  }
}

}  // namespace keyway
