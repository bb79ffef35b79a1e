// Tasks that end before the call that submitted them returns: see GroupExecutor::execute_all().
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

// submit() announces the wait for a task to the WaitGraph before the task can begin. So the graph
// refuses a wait that would close a cycle while its task has not begun, and a task that has begun
// is always waited for.
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

  // Waits for all tasks; cancels them if `stop` is requested. If the graph refused the wait for a
  // task (kWaitCycle, kNoThread), cancels the tasks before it, and throws that Exception when they
  // have ended.
  void wait(const std::stop_token& stop);

  // The result of tasks that submit() did not take, or was not called for.
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
  std::optional<Error> refused_;  // why the WaitGraph refused the wait for a task
  bool shut_down_ = false;
};

}  // namespace keyway::detail
