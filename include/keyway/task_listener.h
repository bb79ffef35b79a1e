// Watches tasks go by.
#pragma once

#include <exception>
#include <string_view>

#include "keyway/scheduler.h"
#include "keyway/task_status.h"

namespace keyway {

// What a listener is told of a task that has ended: a GroupResult without names and value.
struct TaskOutcome {
  TaskStatus status{};
  std::exception_ptr error{};
  TimePoint started{};
  TimePoint ended{};
};

// For every task: submitted, then either rejected, or [started and] completed; each once. A task
// that is cancelled while it waits completes without having started.
//
// The calls come from the thread that does the thing, before anybody who waits for the task hears
// of it, and with no lock held. What they throw is swallowed.
//
// Thread safety: an implementation must bear calls from many threads at once.
class TaskLifecycleListener {
 public:
  virtual ~TaskLifecycleListener() = default;

  virtual void on_submitted(std::string_view /*group_key*/, std::string_view /*task_id*/) {}
  virtual void on_started(std::string_view /*group_key*/, std::string_view /*task_id*/) {}
  virtual void on_completed(std::string_view /*group_key*/, std::string_view /*task_id*/,
                            const TaskOutcome& /*outcome*/) {}
  virtual void on_rejected(std::string_view /*group_key*/, std::string_view /*task_id*/) {}
};

}  // namespace keyway
