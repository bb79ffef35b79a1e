// What a task has that was submitted with TaskOptions: it lies at the end of the task's block.
#pragma once

#include <cstdint>

#include "keyway/detail/atomic.h"
#include "keyway/scheduler.h"
#include "keyway/task_options.h"
#include "keyway/task_status.h"

namespace keyway::detail {

class TaskCore;

// Ends a task that has waited too long.
class ExpiryTimer final : public Timer {
 public:
  explicit ExpiryTimer(TaskCore& task) : task_(task) {}
  void fire() override;

 private:
  TaskCore& task_;
};

struct TaskExtras {
  explicit TaskExtras(TaskCore& task) : expiry(task) {}

  // Constant after submit.
  std::uint32_t cost = 1;
  int priority = 0;
  bool expires = false;
  TimePoint expires_at{};
  Conflation conflation = Conflation::kNone;
  // Drops the callable of a task unrun, and keeps a copy of what `from` keeps, which has the same type
  // of value. False if the copy constructor throws. Not null with kShareResult.
  bool (*copy_result)(TaskCore&, TaskCore& from, TaskStatus) = nullptr;

  // Numbers conflated tasks in the order of their submits. Constant after that.
  std::uint64_t arrival = 0;
  Atomic<bool> follows{false};  // it does not run: it ends with another one
  // The task that it follows, until one of the two has ended. Guarded by the ConflationTable's
  // mutex.
  TaskCore* leader = nullptr;
  Atomic<bool> superseded{false};

  std::uint32_t units = 1;  // how many permits it holds; written by whoever gives them to it
  ExpiryTimer expiry;
};

}  // namespace keyway::detail
