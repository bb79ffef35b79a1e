#include "keyway/detail/joined_tasks.h"

#include <string>
#include <utility>

#include "groups/blocked_wait.h"
#include "groups/group_engine.h"
#include "groups/rejection.h"
#include "runtime/blocking.h"

namespace keyway::detail {

JoinedTasks::JoinedTasks(std::size_t count) { tasks_.reserve(count); }

JoinedTasks::~JoinedTasks() {
  if (tasks_.empty()) return;
  cancel_back_to_front();
  wait_for_ends({});
}

bool JoinedTasks::submit(const GroupPlace& place, TaskCore& task) {
  const bool is_first = tasks_.empty();
  task.retain();
  Joined joined{CoreReference(&task), std::make_unique<BlockedWait>()};
  task.set_awaits_room(true);  // until it is in its queue
  const Result<void> announced = joined.wait->announce(task);
  if (announced) tasks_.push_back(std::move(joined));
  try {
    announced ? static_cast<void>(enqueue(place, task)) : place.engine->refuse_wait(task);
  } catch (const Exception& exception) {
    if (exception.code() != ErrorCode::kShutdown || is_first) throw;
    shut_down_ = true;
    return false;
  }
  task.set_awaits_room(false);
  if (!announced) {
    refused_ = announced.error();
  } else if (auto error = conflated_error(task); error && error->code == ErrorCode::kWaitCycle) {
    refused_ = *std::move(error);  // it would share the result of a task that waits for the caller
    tasks_.pop_back();
  } else {
    tasks_.back().submitted = true;
  }
  return !refused_;
}

void JoinedTasks::wait(const std::stop_token& stop) {
  if (refused_) cancel_back_to_front();
  if (!wait_for_ends(refused_ ? std::stop_token() : stop)) {
    cancel_back_to_front();
    wait_for_ends({});
  }
  tasks_.clear();
  if (refused_) throw Exception(*std::move(refused_));
}

// False if stop was requested. The waits have ended then, because the caller cancels tasks next,
// which runs user code.
bool JoinedTasks::wait_for_ends(const std::stop_token& stop) {
  bool any_begun = false;
  for (const Joined& joined : tasks_) {
    if (joined.wait->begin_announced(!any_begun, &joined == &tasks_.back())) any_begun = true;
  }
  WaitEnd end = WaitEnd::kDone;
  for (const Joined& joined : tasks_) {
    TaskCore& task = *joined.task;
    if (!joined.submitted || end == WaitEnd::kStopped) continue;
    end =
        block(task, {.stop = stop, .spins = kSpinsForTask, .scheduler = &task.owner().scheduler()});
    KEYWAY_CHECK(end != WaitEnd::kStuck,
                 "a call waits for its tasks, but the simulation has nothing more to run");
  }
  // The calling task gets its permits when all of its waits have begun to end.
  for (const Joined& joined : tasks_) joined.wait->begin_end();
  for (const Joined& joined : tasks_) joined.wait->finish_end(&joined.task->owner().scheduler());
  return end != WaitEnd::kStopped;
}

// From the back, so that no other task of this call begins with the permits of a cancelled one.
void JoinedTasks::cancel_back_to_front() {
  for (auto joined = tasks_.rbegin(); joined != tasks_.rend(); ++joined) {
    TaskCore& task = *joined->task;
    if (joined->submitted && !task.done()) task.owner().cancel(task);
  }
}

std::exception_ptr JoinedTasks::error_of_untaken(std::string_view group_key,
                                                 std::string_view task_id) const {
  if (shut_down_) {
    return std::make_exception_ptr(rejected_error(RejectionReason::kShutdown, group_key, task_id));
  }
  return std::make_exception_ptr(CancelledError(name_of_task(group_key, task_id) +
                                                " was not submitted: stop was requested before"));
}

}  // namespace keyway::detail
