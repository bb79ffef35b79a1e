// The result of a task as a std::future, for code that waits on futures.
//
//   std::future<GroupResult<Page>> page = to_future(executor.submit("vip", "task-1", fetch));
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <exception>
#include <future>
#include <memory>
#include <utility>

#include "keyway/detail/check.h"
#include "keyway/task_handle.h"

namespace keyway {

namespace detail {

// Owns the handle until the task is done, then deletes itself.
template <class T>
struct FutureBridge final : Continuation {
  explicit FutureBridge(TaskHandle<T> task) : handle(std::move(task)) {}

  void task_done() noexcept override {
    const std::unique_ptr<FutureBridge> self(this);
    try {
      promise.set_value(HandleAccess::take(handle));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }

  TaskHandle<T> handle;
  std::promise<GroupResult<T>> promise;
};

}  // namespace detail

// The future throws the exceptions of join(). Throws Exception (kInvalidArgument) for an empty
// handle.
// REQUIRES: no coroutine awaits the handle.
template <class T>
std::future<GroupResult<T>> to_future(TaskHandle<T> handle) {
  using Claim = detail::TaskCore::Claim;
  detail::TaskCore& task = detail::HandleAccess::core(handle);
  auto bridge = std::make_unique<detail::FutureBridge<T>>(std::move(handle));
  std::future<GroupResult<T>> future = bridge->promise.get_future();
  const Claim claim = task.claim_continuation();
  KEYWAY_CHECK(claim != Claim::kClaimedByAnother,
               "to_future() took a handle that a coroutine awaits");
  detail::FutureBridge<T>* raw = bridge.release();  // deletes itself
  if (claim == Claim::kTaskIsDone || !task.set_continuation(*raw)) raw->task_done();
  return future;
}

}  // namespace keyway
