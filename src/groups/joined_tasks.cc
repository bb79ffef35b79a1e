#include "keyway/detail/joined_tasks.h"

#include <string>
#include <utility>

#include "groups/blocked_wait.h"
#include "groups/group_engine.h"
#include "runtime/blocking.h"

namespace keyway::detail {

JoinedTasks::JoinedTasks(std::size_t count) { tasks_.reserve(count); }

JoinedTasks::~JoinedTasks() {
  if (tasks_.empty()) return;
  cancel_back_to_front();
  wait_for_end({});
}

bool JoinedTasks::submit(const GroupPlace& place, TaskCore& task) {
  auto wait = std::make_unique<BlockedWait>();
  task.set_awaits_room(true);  // until it is in its queue
  const BlockedWait* before = tasks_.empty() ? nullptr : tasks_.back().wait.get();
  if (Result<void> begun = wait->announce(task, before); !begun) {
    place.engine->turn_away(task, RejectionReason::kWaitCycle);
    refused_ = begun.error();
    return false;
  }
  task.retain();
  tasks_.push_back({CoreReference(&task), std::move(wait)});
  try {
    enqueue(place, task);
  } catch (const Exception& exception) {
    if (exception.code() != ErrorCode::kShutdown || tasks_.size() == 1) throw;
    shut_down_ = true;
    return false;
  }
  task.set_awaits_room(false);
  tasks_.back().submitted = true;
  return true;
}

void JoinedTasks::wait(const std::stop_token& stop) {
  if (refused_) cancel_back_to_front();
  wait_for_end(stop);
  if (refused_) throw Exception(*std::move(refused_));
}

void JoinedTasks::wait_for_end(const std::stop_token& stop) {
  for (const Joined& joined : tasks_) joined.wait->begin_announced();
  for (const Joined& joined : tasks_) {
    TaskCore& task = *joined.task;
    while (joined.submitted && !task.done()) {
      const WaitEnd end = block(task, {.stop = cancelled_ ? std::stop_token() : stop,
                                       .spins = kSpinsForTask,
                                       .scheduler = &task.owner().scheduler()});
      KEYWAY_CHECK(end != WaitEnd::kStuck,
                   "a call waits for its tasks, but the simulation has nothing more to run");
      if (end == WaitEnd::kStopped) cancel_back_to_front();
    }
  }
  // The permits that these waits gave back come back once all of the waits have ended.
  for (const Joined& joined : tasks_) joined.wait->begin_end();
  for (const Joined& joined : tasks_) joined.wait->finish_end(joined.task->owner().scheduler());
  tasks_.clear();
}

// From the back, so that the permits of a task that ends are not taken by a task of this call.
void JoinedTasks::cancel_back_to_front() {
  cancelled_ = true;
  for (auto joined = tasks_.rbegin(); joined != tasks_.rend(); ++joined) {
    TaskCore& task = *joined->task;
    if (joined->submitted && !task.done()) task.owner().cancel(task);
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
