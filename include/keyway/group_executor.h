// Runs tasks in groups: groups side by side, the tasks of one group up to its limit.
// Use it when each key has a limit of its own; when every key is strictly serial and callers wait for
// their turn, a serial dispatcher or a lock says so more plainly.
//
//   GroupExecutor executor({.groups = {{"vip", {.max_concurrency = 4}}}});
//   auto handle = executor.submit("vip", "task-1", [] { return fetch(); });
//   GroupResult<Page> result = handle.join();
//
// A task is a callable, which may be move-only, may take a std::stop_token, may block, and may return
// void, a move-only value, a reference, or a Task<T>: then it is a coroutine, which holds its permits
// but no thread while it waits.
//
// Guarantees:
//   (1) Never more tasks run than any layer of the policy allows, at any instant, also while limits
//       change: up at once, down as tasks end.
//   (2) Within a group tasks start in the order their submits returned; of different priority, the
//       higher first.
//   (3) Groups take turns: a group with a thousand waiting tasks does not hold up one with two.
//   (4) Every task ends exactly once, in one status, and so do its listener's calls. Whatever a task
//       throws reaches its handle.
//   (5) A group without tasks costs nothing (but for a bounded number that is kept warm).
//   (6) A task may submit to its own group and wait, whatever the limits: it gives its permits back
//       meanwhile, and has them again when the wait is over. A wait that could never end is refused.
//       (A limit that goes down during a wait may take a permit back until it is over, too.)
// Not guaranteed: an order between tasks of different groups; nor (1) for a coroutine of which one
// branch waits for its own group while another, started beside it by when_all(), goes on.
//
// Thread safety: every method from any thread, also from within tasks and listeners.
// Lifetime: the destructor is shutdown(), then waits for the running tasks. It must not be called by
// one of the executor's own tasks.
#pragma once

#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keyway/executor_scheduler.h"
#include "keyway/explanation.h"
#include "keyway/group_policy.h"
#include "keyway/group_result.h"
#include "keyway/group_task.h"
#include "keyway/scheduler.h"
#include "keyway/submit_awaiter.h"
#include "keyway/task.h"
#include "keyway/task_handle.h"
#include "keyway/task_listener.h"
#include "keyway/task_options.h"
#include "keyway/thread_pool.h"

namespace keyway {

class GroupEngine;
class GroupHandle;
class SerialDispatcher;

namespace detail {
Error turned_away(std::string_view group_key);
}

struct GroupStats {
  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t expired = 0;
  std::uint64_t rejected = 0;
  std::uint64_t running = 0;  // tasks that hold permits now
  std::uint64_t waiting = 0;
};

class GroupExecutor {
 public:
  // Throws Exception (kInvalidArgument) for a policy out of range.
  explicit GroupExecutor(GroupPolicy policy, ThreadPoolOptions threads = {});
  // On threads of the caller's. REQUIRES: the scheduler outlives the executor.
  GroupExecutor(GroupPolicy policy, Scheduler& scheduler);
  // On an executor of the caller's: anything with execute(f), which must run f later, once.
  template <class Executor>
    requires requires(Executor& executor, void (*f)()) { executor.execute(f); }
  GroupExecutor(GroupPolicy policy, Executor& executor)
      : GroupExecutor(std::move(policy), make_executor_scheduler(executor)) {}
  ~GroupExecutor();
  GroupExecutor(const GroupExecutor&) = delete;
  GroupExecutor& operator=(const GroupExecutor&) = delete;

  // Never throws because of a full queue: the handle knows. Throws Exception for an empty key, a
  // null callable (kInvalidArgument), or after shutdown (kShutdown).
  template <class F>
  auto submit(std::string_view group_key, std::string_view task_id, F&& callable)
      -> TaskHandle<detail::TaskValue<std::decay_t<F>>> {
    const std::size_t hash = detail::require_key(group_key);
    auto& task = make(2, group_key, task_id, std::forward<F>(callable));
    TaskHandle<detail::TaskValue<std::decay_t<F>>> handle(task);
    enqueue(task, hash);  // whether it was turned away, the handle knows
    return handle;
  }

  // The same for one that asks for more than its place in the queue.
  template <class F>
  auto submit(std::string_view group_key, const TaskOptions& options, F&& callable)
      -> TaskHandle<detail::TaskValue<std::decay_t<F>>> {
    const std::size_t hash = detail::require_key(group_key);
    auto& task = make(2, group_key, options, std::forward<F>(callable));
    TaskHandle<detail::TaskValue<std::decay_t<F>>> handle(task);
    enqueue(task, hash);
    return handle;
  }

  // Three ways to come upon a full queue without asking the policy. A task that is turned away by them
  // is counted and seen by the listener as any other; its callable is gone.

  // An error (kRejected) if there is no room now.
  template <class F>
  auto try_submit(std::string_view group_key, const TaskOptions& options, F&& callable)
      -> Result<TaskHandle<detail::TaskValue<std::decay_t<F>>>> {
    const std::size_t hash = detail::require_key(group_key);
    auto& task = make(2, group_key, options, std::forward<F>(callable));
    TaskHandle<detail::TaskValue<std::decay_t<F>>> handle(task);
    if (!try_enqueue(task, hash)) return detail::turned_away(group_key);
    return handle;
  }

  // Blocks until there is room, those who came first in front; an error (kTimeout) when `timeout` is
  // over, or (kShutdown) if the executor is shut down meanwhile. Within a task it is a wait as for
  // another task: the permits in the way are given back, and one that could never end is an error
  // (kWaitCycle).
  template <class F>
  auto submit_within(Duration timeout, std::string_view group_key, const TaskOptions& options,
                     F&& callable) -> Result<TaskHandle<detail::TaskValue<std::decay_t<F>>>> {
    const std::size_t hash = detail::require_key(group_key);
    auto& task = make(2, group_key, options, std::forward<F>(callable));
    TaskHandle<detail::TaskValue<std::decay_t<F>>> handle(task);
    if (Result<void> taken = enqueue_within(task, hash, timeout); !taken) return taken.error();
    return handle;
  }

  // The same for a coroutine: Result<TaskHandle<T>> handle = co_await executor.submit_async(...);
  // It waits without a timeout; but a task with `start_within` is over, kExpired, when its time is.
  // With g++ 12, a lambda that captures more than plain values and references must have a name: written into
  // a co_await expression, it would be destroyed twice.
  template <class F>
  auto submit_async(std::string_view group_key, const TaskOptions& options, F&& callable)
      -> SubmitAwaiter<detail::TaskValue<std::decay_t<F>>> {
    static_assert(detail::kIsSafeInAwait<F>, "g++ 12 would destroy this lambda twice: name it");
    const std::size_t hash = detail::require_key(group_key);
    auto& task = make(2, group_key, options, std::forward<F>(callable));
    return {*engine_, hash, TaskHandle<detail::TaskValue<std::decay_t<F>>>(task)};
  }

  // Fire and forget: no handle, no id. A task that is turned away is an error (kRejected), unless
  // the policy lets the caller run it. What it throws is seen by the listener alone.
  template <class F>
  Result<void> post(std::string_view group_key, F&& callable) {
    const std::size_t hash = detail::require_key(group_key);
    if (enqueue(make(1, group_key, std::string_view(), std::forward<F>(callable)), hash)) return {};
    return detail::turned_away(group_key);
  }

  template <class F>
  Result<void> post(std::string_view group_key, const TaskOptions& options, F&& callable) {
    const std::size_t hash = detail::require_key(group_key);
    if (enqueue(make(1, group_key, options, std::forward<F>(callable)), hash)) return {};
    return detail::turned_away(group_key);
  }

  // Submits all, waits for all, and gives the results in the order of the tasks, whatever became of
  // each. If `stop` is requested meanwhile, what is not done is cancelled.
  template <class T>
  std::vector<GroupResult<T>> execute_all(std::vector<GroupTask<T>> tasks,
                                          std::stop_token stop = {});

  // A group that is used often: submits through the handle skip the lookup of its key.
  GroupHandle group(std::string_view group_key);

  // Changes limits while tasks run: up at once, down as tasks end; nobody who runs is disturbed. What
  // is not given stays. Holds until it is changed again, or forgotten by evict_group(). An error
  // (kInvalidArgument) for a limit out of range.
  Result<void> set_limits(std::string_view group_key, const GroupLimits& limits);
  Result<void> set_limit(std::string_view group_key, int max_concurrency) {
    return set_limits(group_key, {.max_concurrency = max_concurrency});
  }
  // Only of an executor that was made with a global limit.
  Result<void> set_global_limit(int max_in_flight);

  // While a group, or all, are paused, tasks are taken in but none begins; those that run go on.
  void pause_group(std::string_view group_key);
  void resume_group(std::string_view group_key);
  void pause();
  void resume();

  // Waits until a group, or the executor, has no tasks: those submitted meanwhile included. False
  // when the time is over. Throws Exception (kWaitCycle) within a task that it would wait for.
  bool drain_group(std::string_view group_key, Duration timeout = Duration::max());
  bool drain(Duration timeout = Duration::max());

  // Ends a group's waiting tasks kRejected and requests stop of its running ones. The key can be
  // used again at once.
  void shutdown_group(std::string_view group_key);
  // Forgets the group's limits, also those that were set: the next submit finds them anew. Tasks are
  // not touched.
  void evict_group(std::string_view group_key);

  // No more submits. Waiting tasks end kRejected; running ones get a stop request, and finish.
  // Does not wait for them.
  void shutdown();
  // No more submits. Waits until every task has finished, then true; when the time is over,
  // shutdown(), wait for those that run, and false.
  bool shutdown(Duration timeout);

  GroupStats stats() const;
  // Of a group that has tasks, or had some a short while ago; otherwise all 0.
  GroupStats group_stats(std::string_view group_key) const;
  // The groups that have running or waiting tasks, in alphabetical order.
  std::vector<std::string> active_group_keys() const;
  // Why the group's next task, or this one, does not start: which limit binds, who holds it and for how
  // long, its place in the queue, and what would let it go on.
  //   std::cout << executor.explain("vip");   // 4 of 4 running; oldest 2.1 s (task-7); 12 waiting; ...
  Explanation explain(std::string_view group_key) const;
  template <class T>
  Explanation explain(const TaskHandle<T>& handle) const {
    return explain_task(handle.core());
  }
  // With GroupPolicy::observe: the groups in which most tasks have started, and how long these waited
  // and ran; and that of one group, if it is one of the busiest 1,024 or so.
  std::vector<HotGroup> hot_groups(std::size_t count) const;
  std::optional<HotGroup> group_times(std::string_view group_key) const;
  // How many submits wait for room in a queue: see submit_within().
  std::size_t waiting_for_room() const;
  // Of the executor's own threads; all 0 if it has none.
  ThreadPoolStats thread_stats() const;

 private:
  friend class GroupHandle;
  friend class SerialDispatcher;

  GroupExecutor(GroupPolicy policy, std::unique_ptr<Scheduler> scheduler);

  template <class F>
  auto& make(std::uint32_t references, std::string_view key, std::string_view id, F&& callable) {
    detail::require_id(id);
    detail::require_callable(callable, key, id);
    return detail::TaskNode<std::decay_t<F>>::make(owner(), references, key, id,
                                                   std::forward<F>(callable));
  }
  template <class F>
  auto& make(std::uint32_t references, std::string_view key, const TaskOptions& options,
             F&& callable) {
    detail::require_id(options.id);
    detail::require_callable(callable, key, options.id);
    detail::require_options(options);
    const bool has_extras = options != TaskOptions{.id = options.id};
    auto& task = detail::TaskNode<std::decay_t<F>>::make(owner(), references, key, options.id,
                                                         std::forward<F>(callable), has_extras);
    if (has_extras) {
      prepare(task, options, &detail::kValueType<detail::TaskValue<std::decay_t<F>>>);
    }
    return task;
  }
  void prepare(detail::TaskCore& task, const TaskOptions& options, const void* value_type) const;
  detail::TaskOwner& owner() const;
  bool enqueue(detail::TaskCore& task, std::size_t hash);
  Explanation explain_task(detail::TaskCore& task) const;
  bool try_enqueue(detail::TaskCore& task, std::size_t hash);
  Result<void> enqueue_within(detail::TaskCore& task, std::size_t hash, Duration timeout);

  std::unique_ptr<GroupEngine> engine_;
  // Destroyed first: when its threads are gone, nobody uses the engine any more.
  std::unique_ptr<Scheduler> own_scheduler_;
};

// Pins a group of an executor.
//
// Thread safety: every method from any thread.
// Lifetime: must not outlive its executor.
class GroupHandle {
 public:
  GroupHandle(GroupHandle&& other) noexcept
      : executor_(other.executor_), lane_(std::exchange(other.lane_, nullptr)) {}
  GroupHandle& operator=(GroupHandle&&) = delete;
  ~GroupHandle();

  std::string_view key() const;

  // As those of GroupExecutor.
  template <class F>
  auto submit(std::string_view task_id, F&& callable)
      -> TaskHandle<detail::TaskValue<std::decay_t<F>>> {
    auto& task = executor_.make(2, key(), task_id, std::forward<F>(callable));
    TaskHandle<detail::TaskValue<std::decay_t<F>>> handle(task);
    enqueue(task);  // whether it was turned away, the handle knows
    return handle;
  }
  template <class F>
  auto submit(const TaskOptions& options, F&& callable)
      -> TaskHandle<detail::TaskValue<std::decay_t<F>>> {
    auto& task = executor_.make(2, key(), options, std::forward<F>(callable));
    TaskHandle<detail::TaskValue<std::decay_t<F>>> handle(task);
    enqueue(task);
    return handle;
  }
  template <class F>
  Result<void> post(F&& callable) {
    if (enqueue(executor_.make(1, key(), std::string_view(), std::forward<F>(callable)))) return {};
    return detail::turned_away(key());
  }

 private:
  friend class GroupExecutor;
  GroupHandle(GroupExecutor& executor, Lane& lane) : executor_(executor), lane_(&lane) {}
  bool enqueue(detail::TaskCore& task);

  GroupExecutor& executor_;
  Lane* lane_;
};

template <class T>
std::vector<GroupResult<T>> GroupExecutor::execute_all(std::vector<GroupTask<T>> tasks,
                                                       std::stop_token stop) {
  std::vector<TaskHandle<T>> handles;
  handles.reserve(tasks.size());
  for (GroupTask<T>& task : tasks) {
    handles.push_back(submit(task.group_key, task.task_id, std::move(task.task)));
  }
  std::vector<GroupResult<T>> results;
  results.reserve(handles.size());
  for (TaskHandle<T>& handle : handles) {
    results.push_back(handle.wait_quietly(stop));
    if (stop.stop_requested()) handle.cancel();  // the waits for the rest return at once
  }
  return results;
}

}  // namespace keyway
