// Tasks that end before the call that submitted them does: see GroupExecutor::execute_all().
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "keyway/error.h"
#include "keyway/submit_ways.h"
#include "keyway/task_status.h"

namespace keyway {
class BlockedWait;
}

namespace keyway::detail {

// The wait for a task is announced to the WaitGraph before the task can begin. So of waits that would close a cycle the
// last one is refused, and the task of a refused wait has not begun: tasks that have begun are always waited for.
//
// Thread safety: one thread.
// Lifetime: the destructor cancels the tasks that have not ended, and waits for them.
class JoinedTasks {
 public:
  explicit JoinedTasks(std::size_t count);
  ~JoinedTasks();
  JoinedTasks(const JoinedTasks&) = delete;
  JoinedTasks& operator=(const JoinedTasks&) = delete;

  // False if the task was not taken: the executor is shut down, or wait() will throw. Throws Exception (kShutdown) if
  // the executor is shut down before the first task.
  bool submit(const GroupPlace& place, TaskCore& task);

  // Waits for all; cancels them if `stop` is requested. If the wait for a task would never end (kWaitCycle, kNoThread),
  // cancels the tasks before it and throws that Exception when they have ended.
  void wait(const std::stop_token& stop);

  // For tasks that submit() was not called for, or that it did not take.
  TaskStatus status_of_untaken() const {
    return shut_down_ ? TaskStatus::kRejected : TaskStatus::kCancelled;
  }
  std::exception_ptr error_of_untaken(std::string_view group_key, std::string_view task_id) const;

 private:
  struct Joined {
    CoreReference task;
    std::unique_ptr<BlockedWait> wait;
    bool submitted = false;
  };

  bool wait_for_ends(const std::stop_token& stop);
  void cancel_back_to_front();

  std::vector<Joined> tasks_;
  std::optional<Error> refused_;  // the wait for a task
  bool shut_down_ = false;
};

}  // namespace keyway::detail
