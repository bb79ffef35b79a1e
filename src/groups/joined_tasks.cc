#include "keyway/detail/joined_tasks.h"

#include <string>

namespace keyway::detail {

JoinedTasks::~JoinedTasks() {
  cancel_back_to_front();
  static_cast<void>(wait_for_end({}));
}

bool JoinedTasks::submit(const GroupPlace& place, TaskCore& task) {
  try {
    enqueue(place, task);
  } catch (const Exception& exception) {
    if (exception.code() != ErrorCode::kShutdown || tasks_.empty()) throw;
    shut_down_ = true;
    return false;
  }
  tasks_.push_back(&task);
  return true;
}

void JoinedTasks::wait(const std::stop_token& stop) {
  if (std::optional<Error> endless = wait_for_end(stop)) throw Exception(*std::move(endless));
}

std::optional<Error> JoinedTasks::wait_for_end(const std::stop_token& stop) {
  std::optional<Error> endless;
  for (TaskCore* task : tasks_) {
    while (!task->done()) {
      const Result<TaskOwner::Waited> waited =
          task->owner().wait(*task, nullptr, cancelled_ ? std::stop_token() : stop);
      if (waited && *waited == TaskOwner::Waited::kDone) break;
      if (!waited && cancelled_) {
        endless = waited.error();
        break;
      }
      // Either stop was requested, or the task cannot end while the caller waits: if it has not begun,
      // cancelling it ends it.
      cancel_back_to_front();
    }
  }
  return endless;
}

// From the back, so that the permits of a task that ends are not taken by a task of this call.
void JoinedTasks::cancel_back_to_front() {
  cancelled_ = true;
  for (auto task = tasks_.rbegin(); task != tasks_.rend(); ++task) {
    if (!(*task)->done()) (*task)->owner().cancel(**task);
  }
}

std::exception_ptr JoinedTasks::error_of_untaken(std::string_view group_key,
                                                 std::string_view task_id) const {
  const std::string name =
      "task \"" + std::string(task_id) + "\" of group \"" + std::string(group_key) + "\"";
  if (!shut_down_) {
    return std::make_exception_ptr(
        CancelledError(name + " was not submitted: stop was requested before"));
  }
  return std::make_exception_ptr(Exception(
      {.code = ErrorCode::kShutdown,
       .message = name + " was not taken: the executor is shut down; submit before shutdown()",
       .group_key = std::string(group_key),
       .task_id = std::string(task_id)}));
}

}  // namespace keyway::detail
