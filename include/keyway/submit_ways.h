// The ways to submit a task, which GroupExecutor and GroupHandle have in common.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "keyway/detail/make_task.h"
#include "keyway/error.h"
#include "keyway/scheduler.h"
#include "keyway/submit_awaiter.h"
#include "keyway/task_callable.h"
#include "keyway/task_handle.h"
#include "keyway/task_options.h"

namespace keyway {

class GroupEngine;
class Lane;

namespace detail {

// Where a task goes: an executor and one of its groups.
struct GroupPlace {
  GroupEngine* engine;
  TaskOwner* owner;  // the engine
  std::string_view key;
  std::size_t hash;             // of the key
  Lane* pinned_lane = nullptr;  // of the group, if the caller has pinned it
};

// Null, or why the task was rejected. If there is no room, enqueue() asks the policy, and
// try_enqueue() rejects the task.
std::optional<RejectionReason> enqueue(const GroupPlace& place, TaskCore& task);
std::optional<RejectionReason> try_enqueue(const GroupPlace& place, TaskCore& task);
// Waits for room until `timeout`.
Result<void> try_enqueue_for(const GroupPlace& place, TaskCore& task, Duration timeout);

inline std::string_view id_of(std::string_view id) { return id; }
inline std::string_view id_of(const TaskOptions& options) { return options.id; }

}  // namespace detail

// `Where`: the first arguments, which are the group key for a GroupExecutor, and nothing for a
// GroupHandle. Before the callable, each function takes an id, TaskOptions, or nothing:
//
//   executor.submit("vip", fetch);
//   executor.submit("vip", "task-1", fetch);
//   executor.submit("vip", {.id = "task-1", .priority = 1}, fetch);
//
// Each throws Exception for an empty key, a null callable, options out of range, or a result to share that has
// another type than that of the task with the same id (kInvalidArgument), and after shutdown (kShutdown).
template <class Self, class... Where>
class SubmitWays {
  friend Self;
  SubmitWays() = default;

 public:
  // If the queue is full, GroupPolicy::rejection decides; a rejected task ends kRejected, and
  // submit() does not throw.
  template <TaskCallable F>
  auto submit(Where... where, F&& callable) -> TaskHandle<TaskValueOf<F>> {
    return do_submit(place(where...), std::string_view(), std::forward<F>(callable));
  }
  template <TaskId Id, TaskCallable F>
  auto submit(Where... where, const Id& id, F&& callable) -> TaskHandle<TaskValueOf<F>> {
    return do_submit(place(where...), std::string_view(id), std::forward<F>(callable));
  }
  template <TaskCallable F>
  auto submit(Where... where, const TaskOptions& options, F&& callable)
      -> TaskHandle<TaskValueOf<F>> {
    return do_submit(place(where...), options, std::forward<F>(callable));
  }

  // Fire and forget: no handle. An error (kRejected, with Error::rejection) if the task is
  // rejected. Only the listener sees what the task throws.
  template <TaskCallable F>
  Result<void> post(Where... where, F&& callable) {
    return do_post(place(where...), std::string_view(), std::forward<F>(callable));
  }
  template <TaskId Id, TaskCallable F>
  Result<void> post(Where... where, const Id& id, F&& callable) {
    return do_post(place(where...), std::string_view(id), std::forward<F>(callable));
  }
  template <TaskCallable F>
  Result<void> post(Where... where, const TaskOptions& options, F&& callable) {
    return do_post(place(where...), options, std::forward<F>(callable));
  }

  // The other three do not ask the policy if the queue is full. A task that they reject is counted,
  // the listener sees it, and its callable is destroyed. All three return an error (kRejected) for
  // a task that is rejected because of an older one with the same id (RejectionReason::kConflated).

  // An error (kRejected) if there is no room now.
  template <TaskCallable F>
  auto try_submit(Where... where, F&& callable) -> Result<TaskHandle<TaskValueOf<F>>> {
    return do_try_submit(place(where...), std::string_view(), std::forward<F>(callable));
  }
  template <TaskId Id, TaskCallable F>
  auto try_submit(Where... where, const Id& id, F&& callable)
      -> Result<TaskHandle<TaskValueOf<F>>> {
    return do_try_submit(place(where...), std::string_view(id), std::forward<F>(callable));
  }
  template <TaskCallable F>
  auto try_submit(Where... where, const TaskOptions& options, F&& callable)
      -> Result<TaskHandle<TaskValueOf<F>>> {
    return do_try_submit(place(where...), options, std::forward<F>(callable));
  }

  // Blocks until there is room, in the order of the calls. An error (kTimeout) when `timeout` has
  // passed, or (kShutdown) if the executor is shut down meanwhile. A task that calls it waits as
  // for another task: it gives permits back meanwhile, and a wait that could never end is an error
  // (kWaitCycle, kNoThread).
  template <TaskCallable F>
  auto try_submit_for(Where... where, Duration timeout, F&& callable)
      -> Result<TaskHandle<TaskValueOf<F>>> {
    return do_try_submit_for(place(where...), timeout, std::string_view(),
                             std::forward<F>(callable));
  }
  template <TaskId Id, TaskCallable F>
  auto try_submit_for(Where... where, Duration timeout, const Id& id, F&& callable)
      -> Result<TaskHandle<TaskValueOf<F>>> {
    return do_try_submit_for(place(where...), timeout, std::string_view(id),
                             std::forward<F>(callable));
  }
  template <TaskCallable F>
  auto try_submit_for(Where... where, Duration timeout, const TaskOptions& options, F&& callable)
      -> Result<TaskHandle<TaskValueOf<F>>> {
    return do_try_submit_for(place(where...), timeout, options, std::forward<F>(callable));
  }

  // The same for a coroutine: Result<TaskHandle<T>> handle = co_await executor.submit_async(...);
  // It has no timeout, but a task with `start_within` ends kExpired when that time has passed.
  // g++ 12 destroys the temporaries of a co_await expression twice. With it, a callable that captures more than plain
  // values and references is copied from a name, or the call has a name, which also works for a move-only callable:
  //   auto submit = executor.submit_async("vip", std::move(callable));
  //   Result<TaskHandle<T>> handle = co_await submit;
  template <TaskCallable F>
  auto submit_async(Where... where, F&& callable) -> detail::SubmitAwaiterOf<F> {
    return do_submit_async(place(where...), std::string_view(), std::forward<F>(callable));
  }
  template <TaskId Id, TaskCallable F>
  auto submit_async(Where... where, const Id& id, F&& callable) -> detail::SubmitAwaiterOf<F> {
    return do_submit_async(place(where...), std::string_view(id), std::forward<F>(callable));
  }
  template <TaskCallable F>
  auto submit_async(Where... where, const TaskOptions& options, F&& callable)
      -> detail::SubmitAwaiterOf<F> {
    return do_submit_async(place(where...), options, std::forward<F>(callable));
  }

 private:
  detail::GroupPlace place(const Where&... where) const {
    return static_cast<const Self&>(*this).place_of(where...);
  }

  // `Wishes`: a string_view, which is the id, or TaskOptions.
  template <class Wishes, class F>
  static TaskHandle<TaskValueOf<F>> do_submit(const detail::GroupPlace& place, const Wishes& wishes,
                                              F&& callable) {
    auto& task = detail::make_task(*place.owner, 2, place.key, wishes, std::forward<F>(callable));
    auto handle = detail::HandleAccess::make<TaskValueOf<F>>(task);
    detail::enqueue(place, task);  // the handle has the status of a rejected task
    return handle;
  }
  template <class Wishes, class F>
  static Result<void> do_post(const detail::GroupPlace& place, const Wishes& wishes, F&& callable) {
    auto& task = detail::make_task(*place.owner, 1, place.key, wishes, std::forward<F>(callable));
    const auto rejected = detail::enqueue(place, task);
    if (!rejected) return {};
    return detail::rejection_error(*rejected, place.key, detail::id_of(wishes));
  }
  template <class Wishes, class F>
  static Result<TaskHandle<TaskValueOf<F>>> do_try_submit(const detail::GroupPlace& place,
                                                          const Wishes& wishes, F&& callable) {
    auto& task = detail::make_task(*place.owner, 2, place.key, wishes, std::forward<F>(callable));
    auto handle = detail::HandleAccess::make<TaskValueOf<F>>(task);
    if (const auto rejected = detail::try_enqueue(place, task)) {
      return detail::rejection_error(*rejected, place.key, detail::id_of(wishes));
    }
    return handle;
  }
  template <class Wishes, class F>
  static Result<TaskHandle<TaskValueOf<F>>> do_try_submit_for(const detail::GroupPlace& place,
                                                              Duration timeout,
                                                              const Wishes& wishes, F&& callable) {
    auto& task = detail::make_task(*place.owner, 2, place.key, wishes, std::forward<F>(callable));
    auto handle = detail::HandleAccess::make<TaskValueOf<F>>(task);
    Result<void> taken = detail::try_enqueue_for(place, task, timeout);
    if (!taken) return std::move(taken).error();
    return handle;
  }
  template <class Wishes, class F>
  static detail::SubmitAwaiterOf<F> do_submit_async(const detail::GroupPlace& place,
                                                    const Wishes& wishes, F&& callable) {
    auto& task = detail::make_task(*place.owner, 2, place.key, wishes, std::forward<F>(callable));
    return {*place.engine, place.hash, detail::HandleAccess::make<TaskValueOf<F>>(task)};
  }
};

}  // namespace keyway
