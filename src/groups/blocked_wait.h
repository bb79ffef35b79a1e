// A wait of the calling thread for a task, from its check to its end. Within a task, it is that task's wait: the task
// gives back what the other one needs, and has it again afterwards.
//
//   BlockedWait wait;
//   if (Result<void> begun = wait.begin(task, bounded); !begun) return begun.error();
//   block(task, ...);
//   wait.end(scheduler);
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/spin_lock.h"
#include "keyway/detail/task_core.h"
#include "runtime/thread_wakeup.h"
#include "runtime/wait_graph.h"

namespace keyway {

// About 10 us: a short task is over before a sleeper could be woken.
inline constexpr int kSpinsForTask = spins_before_sleep(400);

class BlockedWait {
 public:
  BlockedWait() = default;
  ~BlockedWait();
  BlockedWait(const BlockedWait&) = delete;
  BlockedWait& operator=(const BlockedWait&) = delete;

  // An error (kWaitCycle, kNoThread) if the wait could never end.
  Result<void> begin(detail::TaskCore& target, bool bounded);
  // The same for work that is not a single task.
  Result<void> begin(const WantedWork& work, bool bounded);
  // For a thread that will wait for several tasks at once. announce() checks a wait and makes it known, so that others that
  // depend on this thread are refused; nothing is given back yet, and code of the user's may run. begin_announced()
  // gives back what the tasks need, when nothing but waiting is left to do.
  Result<void> announce(detail::TaskCore& target);
  void begin_announced(bool is_last);

  // Blocks until the permits are back. `target`: the scheduler of what was waited for.
  void end(Scheduler& target) {
    begin_end();
    finish_end(target);
  }
  // The same in two steps, for a thread with several waits: the permits come back when all of them have begun to end. An
  // announced wait stays announced until it is destroyed, and may begin again.
  void begin_end();
  void finish_end(Scheduler& target);

 private:
  // Whether something may depend on the calling thread; otherwise its wait need not be known.
  bool may_be_in_the_way() const;
  Result<void> begin(detail::IntendedWait wait);
  Result<void> link();
  Result<void> link_permitless(const detail::IntendedWait& wait);
  void unlink();

  std::unique_ptr<detail::TaskWait> of_task_;
  std::optional<ThreadWakeup> back_;  // the permits are
  bool announced_ = false;
  WaitGraph::Edge edge_;
  bool linked_ = false;
  std::vector<std::unique_ptr<WaitGraph::Edge>> of_permitless_;
};

}  // namespace keyway
