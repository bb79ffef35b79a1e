// The locks that a task leaves: its operation has ended and holds them, for example because a guard is its result. No other
// task can release them until the result is published. So a wait for one of them depends, until then, on the waits of the
// task's listener.
//
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <utility>

#include "keyway/detail/task_core.h"
#include "runtime/thread_context.h"

namespace keyway::detail {

class LeftLocks {
 public:
  // As long as this is there, the operation of `task` may end on this thread. The locks that it then holds are left until
  // publish_next(). Null: those of no task.
  class Ending {
   public:
    explicit Ending(const TaskCore* task)
        : outer_(std::exchange(ThreadContext::here().ending_task, task)) {}
    ~Ending() { ThreadContext::here().ending_task = outer_; }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    // The operation goes on elsewhere.
    void suspended() { ThreadContext::here().ending_task = nullptr; }
    static const TaskCore* task() { return ThreadContext::here().ending_task; }

   private:
    const TaskCore* const outer_;
  };

  static bool has(const TaskCore& task);
  // The task that has left the locks of this operation; null: none. Only to be compared.
  static const TaskCore* task_of(std::uint64_t operation);
  // The task is about to be published.
  static void publish_next(const TaskCore& task);
};

}  // namespace keyway::detail
