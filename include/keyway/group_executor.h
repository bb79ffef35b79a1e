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
//       meanwhile, and has them again when the wait is over. A coroutine with several branches
//       (when_all()) does so when none of them runs. A wait that could never end is refused.
//       (A limit that goes down during a wait may take a permit back until it is over, too.)
// Not guaranteed: an order between tasks of different groups. A branch that awaits something that
// Keyway does not know, such as an awaitable of another library, counts as one that runs.
//
// Thread safety: every method from any thread, also from within tasks and listeners.
// Lifetime: the destructor is shutdown(), then waits for the running tasks. The program ends with a message if that wait
// could never end: in one of the executor's own tasks, on the last free thread of a pool that its tasks need, or while the
// calling thread holds a lock or runs a task that a task of the executor waits for. An executor without tasks needs no
// thread to end. Its handles to groups must be destroyed first.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "keyway/detail/joined_tasks.h"
#include "keyway/executor_scheduler.h"
#include "keyway/explanation.h"
#include "keyway/group_policy.h"
#include "keyway/group_result.h"
#include "keyway/group_task.h"
#include "keyway/scheduler.h"
#include "keyway/submit_ways.h"
#include "keyway/task.h"
#include "keyway/task_handle.h"
#include "keyway/task_listener.h"
#include "keyway/task_options.h"
#include "keyway/thread_pool.h"

namespace keyway {

class GroupEngine;
class GroupHandle;
class Pipeline;
class SerialDispatcher;

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

class GroupExecutor : public SubmitWays<GroupExecutor, std::string_view> {
 public:
  // Throws Exception (kInvalidArgument) for a policy out of range.
  explicit GroupExecutor(GroupPolicy policy, ThreadPoolOptions threads = {});
  // On the caller's threads. REQUIRES: the scheduler outlives the executor.
  GroupExecutor(GroupPolicy policy, Scheduler& scheduler);
  // On the caller's executor, any type with execute(f): see keyway/executor_scheduler.h.
  template <Executor E>
  GroupExecutor(GroupPolicy policy, E&& executor, ExecutorOptions options = {})
      : GroupExecutor(std::move(policy),
                      make_executor_scheduler(std::forward<E>(executor), options)) {}
  ~GroupExecutor();
  GroupExecutor(const GroupExecutor&) = delete;
  GroupExecutor& operator=(const GroupExecutor&) = delete;

  // submit(), post(), try_submit(), try_submit_for(), submit_async(): see keyway/submit_ways.h.

  // Submits the tasks, waits until all of them have ended, and returns their results in the order
  // of the tasks. A rejected task has a result, too: kRejected. When the call returns or throws,
  // none of its tasks runs any more, so their captures may refer to the caller's variables.
  //
  // If `stop` is requested, tasks that were not submitted end kCancelled without running. The
  // others are cancelled from the last to the first, so that none starts in the place of a
  // cancelled one, and the call waits for the running ones.
  //
  // Throws Exception (kShutdown) if the executor is shut down before it takes the first task. If it
  // is shut down later, the tasks that it did not take end kRejected with that exception as their
  // error. Throws Exception (kWaitCycle, kNoThread) if the wait for one of the tasks could never
  // end: the call cancels the tasks before it, waits until they have ended, and submits no others.
  //
  // Blocks the thread; it has no awaitable form. A coroutine submits its tasks and awaits their handles.
  template <class T>
  std::vector<GroupResult<T>> execute_all(std::vector<GroupTask<T>>&& tasks,
                                          std::stop_token stop = {});
  template <class T>
  std::vector<GroupResult<T>> execute_all(const std::vector<GroupTask<T>>&, std::stop_token = {}) {
    static_assert(!std::is_same_v<T, T>,
                  "write execute_all(std::move(tasks)): a GroupTask cannot be copied");
  }

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
  void pause();  // a task that a worker has come for may still begin; not so pause_group()
  void resume();

  // Waits until a group, or the executor, has no tasks, including tasks that are submitted
  // meanwhile; a submit that waits for room has a task only when it has got in. False if the timeout passed first. Throws Exception (kWaitCycle, kNoThread) if the
  // wait could never end, for example within a task of the group. drain() also waits for running
  // listeners, except those that call drain(). Both block the thread, and have no awaitable form.
  bool drain_group(std::string_view group_key, Duration timeout = Duration::max());
  bool drain(Duration timeout = Duration::max());

  // Ends a group's waiting tasks kRejected and requests stop of its running ones. The key can be
  // used again at once.
  void shutdown_group(std::string_view group_key);
  // Forgets the group's limits, also those that were set, and finds them anew: at once if the group is
  // in use, which calls the policy's resolver, otherwise with its next use. Tasks are not touched.
  void evict_group(std::string_view group_key);

  // No more submits. Waiting tasks end kRejected; running ones get a stop request, and finish.
  // Does not wait for them.
  void shutdown();
  // No more submits. True if every task has ended within `timeout`. Otherwise calls shutdown(),
  // waits for the running tasks, unless one of them waits for the caller, and returns false.
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
    return explain_task(detail::HandleAccess::core(handle));
  }
  // With GroupPolicy::observe: the groups in which most tasks have started, and how long these waited
  // and ran; and that of one group, if it is one of the busiest 1,024 or so.
  std::vector<HotGroup> hot_groups(std::size_t count) const;
  std::optional<HotGroup> group_times(std::string_view group_key) const;
  // The number of submits that wait for room in a queue: see try_submit_for().
  std::size_t waiting_for_room() const;
  // Of the executor's own threads; all 0 if it has none.
  ThreadPoolStats thread_stats() const;

 private:
  friend class GroupHandle;
  friend class Pipeline;
  friend class SerialDispatcher;
  friend class SubmitWays<GroupExecutor, std::string_view>;

  GroupExecutor(GroupPolicy policy, std::unique_ptr<Scheduler> scheduler);

  template <class Wishes, class F>
  auto& make(std::uint32_t references, std::string_view key, const Wishes& wishes, F&& callable) {
    return detail::make_task(owner(), references, key, wishes, std::forward<F>(callable));
  }
  detail::TaskOwner& owner() const;
  // From now on no task waits for a token of its group's rate.
  void end_rates();
  detail::GroupPlace place_of(std::string_view group_key) const;
  Explanation explain_task(detail::TaskCore& task) const;

  std::unique_ptr<GroupEngine> engine_;
  // Destroyed first: when its threads are gone, nobody uses the engine any more.
  std::unique_ptr<Scheduler> own_scheduler_;
};

// Pins a group of an executor: its submits skip the lookup of the key.
//
//   GroupHandle vip = executor.group("vip");
//   auto handle = vip.submit("task-1", fetch);        // and all others of keyway/submit_ways.h
//
// Every call of a handle that was moved from throws Exception (kInvalidArgument).
//
// Thread safety: every method from any thread.
// Lifetime: must not outlive its executor.
class GroupHandle : public SubmitWays<GroupHandle> {
 public:
  GroupHandle(GroupHandle&& other) noexcept
      : executor_(other.executor_), lane_(std::exchange(other.lane_, nullptr)) {}
  GroupHandle& operator=(GroupHandle&&) = delete;
  ~GroupHandle();

  std::string_view key() const;

 private:
  friend class GroupExecutor;
  friend class SubmitWays<GroupHandle>;
  GroupHandle(GroupExecutor& executor, Lane& lane) : executor_(executor), lane_(&lane) {}
  detail::GroupPlace place_of() const;

  GroupExecutor& executor_;
  Lane* lane_;
};

template <class T>
std::vector<GroupResult<T>> GroupExecutor::execute_all(std::vector<GroupTask<T>>&& given,
                                                       std::stop_token stop) {
  std::vector<GroupTask<T>> tasks = std::move(given);  // what they capture ends with the call
  std::vector<TaskHandle<T>> handles;
  handles.reserve(tasks.size());
  detail::JoinedTasks joined(tasks.size());
  for (GroupTask<T>& task : tasks) {
    if (stop.stop_requested()) break;
    detail::TaskCore& core = task.make(owner());
    handles.push_back(detail::HandleAccess::make<T>(core));
    if (!joined.submit(place_of(task.group_key()), core)) {
      handles.pop_back();
      break;
    }
  }
  joined.wait(stop);

  std::vector<GroupResult<T>> results;
  results.reserve(tasks.size());
  for (TaskHandle<T>& handle : handles) {
    results.push_back(detail::HandleAccess::take_quietly(handle));
    if (results.back().status == TaskStatus::kRejected) results.back().error = nullptr;
  }
  for (std::size_t i = handles.size(); i < tasks.size(); ++i) {
    const GroupTask<T>& task = tasks[i];
    results.push_back({.group_key = task.group_key(),
                       .task_id = task.task_id(),
                       .status = joined.status_of_untaken(),
                       .error = joined.error_of_untaken(task.group_key(), task.task_id())});
    if (results.back().status == TaskStatus::kRejected) {
      results.back().rejection = RejectionReason::kShutdown;
    }
  }
  return results;
}

}  // namespace keyway
