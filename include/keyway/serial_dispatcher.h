// Runs work one at a time for each key, in the order it came, and keys side by side: a worker queue.
// Use it when work can be handed over; when a caller must hold its key itself, a lock says so more plainly; when a key may
// have several at once, it is a group of a GroupExecutor.
//
//   SerialDispatcher dispatcher({.workers = 8, .queue_capacity = 2000});
//   Result<Nonce> nonce = dispatcher.run("0xsigner", [&] { return service.allocate("0xsigner"); });
//
// Work is a callable as GroupExecutor takes it: it may block, take a std::stop_token, be a coroutine. A lane is what is
// serial: a key, or with Routing::kSticky a worker and all keys that belong to it.
//
// Guarantees:
//   (1) Never two at once in a lane; never more than `workers` at once in all, suspended coroutines included, work
//       that waits for other work not.
//   (2) In a lane work begins in the order in which its submits returned.
//   (3) No queue is longer than its capacity, and what comes upon a full one is told so at once, or waits in line.
//   (4) Work runs once, or never. run() and try_run_for() return when it has ended, so it may refer to the caller's
//       variables. If they return an error of the dispatcher, the work has not run and never will. If the work
//       returns a Result, they also return the error of the work.
//   (5) Work that calls run() or dispatch() for the lane it runs in runs that at once, inside itself. For another lane
//       it is queued; a call that would never end, because lanes wait for each other, is an error (kWaitCycle) that
//       names them.
//   (6) After shutdown() there are no threads, unless its caller could not wait: see there.
// Not guaranteed: any order between lanes; nor (1) within a task that waits, by a handle, for one behind it in its own
// lane: it lets those before that one run meanwhile. Nor that a stop request to work, by cancel() or shutdown(), reaches
// what that work runs by run(): what is to hear of it captures the std::stop_token of the outer work.
//
// Errors: kRejected (retryable), kExpired (retryable), kWaitCycle, kNoThread (within work, on a scheduler with
// bounded threads), kShutdown. An empty key or a null callable throws Exception (kInvalidArgument). What the work
// throws is thrown by run(), or reaches the handle.
//
// Thread safety: every method from any thread, also from within work.
// Lifetime: the destructor is shutdown(0s). It must not be called by the dispatcher's own work.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "keyway/detail/inline_run.h"
#include "keyway/detail/queued_call.h"
#include "keyway/explanation.h"
#include "keyway/group_executor.h"
#include "keyway/serial_options.h"

namespace keyway {

namespace detail {

// Named for compiler messages: a Result holds no reference. Return a pointer or a value.
template <class F>
concept ReturnsNoReference = !std::is_reference_v<TaskValueOf<F>>;

// A Result of a Result is one of them.
template <class T>
struct Flattened {
  using type = Result<T>;
};
template <class T>
struct Flattened<Result<T>> {
  using type = Result<T>;
};

}  // namespace detail

// What run() gives for a callable F.
template <class F>
using SerialResult = typename detail::Flattened<detail::TaskValue<std::decay_t<F>>>::type;

class SerialDispatcher {
 public:
  // Throws Exception (kInvalidArgument) for options out of range.
  explicit SerialDispatcher(SerialOptions options);
  // On threads of the caller's; only Routing::kPerKey. REQUIRES: the scheduler outlives the dispatcher.
  SerialDispatcher(SerialOptions options, Scheduler& scheduler);
  ~SerialDispatcher();
  SerialDispatcher(const SerialDispatcher&) = delete;
  SerialDispatcher& operator=(const SerialDispatcher&) = delete;

  // Waits for the end of the work, and gives what it returned. Blocks the thread; a coroutine awaits dispatch().
  template <TaskCallable F>
    requires detail::ReturnsNoReference<F>
  SerialResult<F> run(std::string_view key, F&& work) {
    return call(std::nullopt, key, std::forward<F>(work));
  }
  // The same with a limit on the wait for the key: an error (kExpired) if the work has not begun
  // within `timeout`; then it never runs. Work that has begun may take longer.
  template <TaskCallable F>
    requires detail::ReturnsNoReference<F>
  SerialResult<F> try_run_for(std::string_view key, Duration timeout, F&& work) {
    return call(timeout, key, std::forward<F>(work));
  }

  // The handle of work that is queued; of work that has ended already if it ran inside its lane, or was run by its
  // caller.
  template <TaskCallable F>
  auto dispatch(std::string_view key, F&& work)
      -> Result<TaskHandle<detail::TaskValue<std::decay_t<F>>>> {
    const Target target = target_of(key);
    detail::require_callable(work, key, {});
    if (is_inside(target)) return run_inside(target, std::forward<F>(work));
    return enqueue(target, std::nullopt, /*waits=*/false, std::forward<F>(work));
  }

  // Fire and forget. Always queued, also from within its own lane: if that is full, the error is
  // kRejected, also with OnFull::kCallerRuns.
  template <TaskCallable F>
  Result<void> post(std::string_view key, F&& work) {
    const Target target = target_of(key);
    detail::require_callable(work, key, {});
    detail::QueuePlace place = take_place();
    const bool over_total = place.is_none();
    if (over_total && !caller_runs()) return all_full(key);
    auto& task = make(1, target, std::nullopt, std::move(place), std::forward<F>(work));
    return submit(target, task, over_total, /*waits=*/false);
  }

  // Takes no more work. Waits until all of it has ended, then true; when the time is over, what still waits ends
  // unrun, what runs gets a stop request and is waited for, and false. Then ends the threads.
  // Called by its own work it can wait for none of this: what waits ends at once, and it returns false. If running work
  // waits for the caller (for a lane or lock that the caller holds, or for the caller's thread), it returns false when the
  // time is over. In both cases the threads end with a later shutdown(), or with the destructor.
  bool shutdown(Duration timeout);

  SerialStats stats() const;
  // Why the next work of a key does not begin: who is in its lane.
  Explanation explain(std::string_view key) const;
  // The name of a key's lane: the key itself, or that of its worker.
  std::string_view lane_of(std::string_view key) const { return target_of(key).lane; }

 private:
  struct Parts;
  friend struct StickySimulation;

  // A sticky dispatcher with one scheduler for each worker. REQUIRES: each scheduler runs one item
  // at a time.
  SerialDispatcher(SerialOptions options, std::vector<std::unique_ptr<Scheduler>> workers);
  void add_workers(std::vector<std::unique_ptr<Scheduler>> schedulers);
  void name_work_by_key();

  // Where the work of a key goes.
  struct Target {
    GroupExecutor* executor;
    std::string_view lane;
    std::string_view task_id;
    std::size_t hash;  // of the lane
    std::string_view key;
  };
  Target target_of(std::string_view key) const;
  static bool is_inside(const Target& target);
  bool caller_runs() const { return options_.on_full == OnFull::kCallerRuns; }
  detail::QueuePlace take_place();
  Error all_full(std::string_view key);
  // An error if it was turned away, or has ended unrun; if it `waits`, when the task has ended.
  Result<void> submit(const Target& target, detail::TaskCore& task, bool over_total, bool waits);
  static void execute_inside(const Target& target, detail::TaskCore& task);
  static Scheduler& scheduler_of(const Target& target);
  static detail::TaskContext part_of_current_task(Scheduler& scheduler, std::stop_token stop);
  static Error expired(std::string_view key);

  template <class F>
  static auto& make(std::uint32_t references, const Target& target,
                    std::optional<Duration> time_to_begin, detail::QueuePlace place, F&& work) {
    if (!place.matters()) {
      return make(references, target, time_to_begin, std::forward<F>(work));
    }
    detail::QueuedCall<std::decay_t<F>> queued(std::move(place), std::forward<F>(work));
    return make(references, target, time_to_begin, std::move(queued));
  }
  template <class F>
  static auto& make(std::uint32_t references, const Target& target,
                    std::optional<Duration> time_to_begin, F&& callable) {
    using Node = detail::ValueNode<detail::TaskValue<std::decay_t<F>>>;
    GroupExecutor& executor = *target.executor;
    if (!time_to_begin) {
      return static_cast<Node&>(
          executor.make(references, target.lane, target.task_id, std::forward<F>(callable)));
    }
    const TaskOptions options{.id = target.task_id, .start_within = time_to_begin};
    return static_cast<Node&>(
        executor.make(references, target.lane, options, std::forward<F>(callable)));
  }

  template <class F>
  SerialResult<F> call(std::optional<Duration> time_to_begin, std::string_view key, F&& work) {
    using Value = detail::TaskValue<std::decay_t<F>>;
    const Target target = target_of(key);
    detail::require_callable(work, key, {});
    Result<TaskHandle<Value>> handle =
        is_inside(target) ? run_inside(target, std::forward<F>(work))
                          : enqueue(target, time_to_begin, /*waits=*/true, std::forward<F>(work));
    if (!handle) return handle.error();
    return outcome_of<Value>(handle->core(), key);
  }

  template <class F>
  auto enqueue(const Target& target, std::optional<Duration> time_to_begin, bool waits, F&& work)
      -> Result<TaskHandle<detail::TaskValue<std::decay_t<F>>>> {
    detail::QueuePlace place = take_place();
    const bool over_total = place.is_none();
    if (over_total && !caller_runs()) return all_full(target.key);
    auto& task = make(2, target, time_to_begin, std::move(place), std::forward<F>(work));
    TaskHandle<detail::TaskValue<std::decay_t<F>>> handle(task);
    if (Result<void> taken = submit(target, task, over_total, waits); !taken) return taken.error();
    return handle;
  }

  // As a part of the task that the calling thread runs: to its end, also if it is a coroutine.
  template <class F>
  static auto run_inside(const Target& target, F&& work)
      -> TaskHandle<detail::TaskValue<std::decay_t<F>>> {
    using Callable = std::decay_t<F>;
    using Value = detail::TaskValue<Callable>;
    if constexpr (detail::kIsCoroutine<Callable>) {
      return run_inside(target,
                        [&target, callable = Callable(std::forward<F>(work))](
                            std::stop_token stop) mutable -> Value {
                          detail::InlineRun run(scheduler_of(target));
                          const detail::TaskContext context = part_of_current_task(run, stop);
                          auto part = [&] {
                            if constexpr (detail::kTakesStopToken<Callable>) {
                              return std::invoke(callable, std::move(stop));
                            } else {
                              return std::invoke(callable);
                            }
                          }();
                          run.begin(context.operation);
                          detail::TaskAccess::start(part, context, run);
                          run.wait();
                          return detail::TaskAccess::take(part);
                        });
    } else {
      auto& task = target.executor->make(2, target.lane, target.task_id, std::forward<F>(work));
      TaskHandle<Value> handle(task);
      execute_inside(target, task);
      return handle;
    }
  }

  template <class T>
  static typename detail::Flattened<T>::type outcome_of(detail::TaskCore& core,
                                                        std::string_view key) {
    auto& task = static_cast<detail::ValueNode<T>&>(core);
    if (task.status() == TaskStatus::kExpired) return expired(key);
    if (task.status() != TaskStatus::kSuccess) {
      std::rethrow_exception(task.operations().error(task));
    }
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      return std::move(task.kept());
    }
  }

  const SerialOptions options_;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace keyway
