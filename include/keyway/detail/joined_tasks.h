// Tasks that end before the call that submitted them does: see GroupExecutor::execute_all().
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "keyway/error.h"
#include "keyway/submit_ways.h"
#include "keyway/task_status.h"

namespace keyway::detail {

// Thread safety: one thread.
// Lifetime: the destructor cancels the tasks that have not ended, and waits for them. The caller keeps a
// reference to each task until then.
class JoinedTasks {
 public:
  explicit JoinedTasks(std::size_t count) { tasks_.reserve(count); }
  ~JoinedTasks();
  JoinedTasks(const JoinedTasks&) = delete;
  JoinedTasks& operator=(const JoinedTasks&) = delete;

  // False if the executor is shut down. Throws Exception (kShutdown) if it is so for the first task.
  bool submit(const GroupPlace& place, TaskCore& task);

  // Waits for all; cancels them if `stop` is requested. Throws Exception (kWaitCycle) if one of them waits
  // for the caller, after the end of all others.
  void wait(const std::stop_token& stop);

  // For tasks that submit() was not called for, or that it did not take.
  TaskStatus status_of_untaken() const {
    return shut_down_ ? TaskStatus::kRejected : TaskStatus::kCancelled;
  }
  std::exception_ptr error_of_untaken(std::string_view group_key, std::string_view task_id) const;

 private:
  // An error if a wait would never end.
  std::optional<Error> wait_for_end(const std::stop_token& stop);
  void cancel_back_to_front();

  std::vector<TaskCore*> tasks_;
  bool shut_down_ = false;
  bool cancelled_ = false;
};

}  // namespace keyway::detail
