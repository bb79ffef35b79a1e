// A wait of the calling thread for a task, from its check to its end. If the caller runs a task,
// that task gives back the permits that the other one needs, and has them again when end() returns.
//
//   BlockedWait wait;
//   if (Result<void> begun = wait.begin(task, bounded); !begun) return begun.error();
//   block(task, ...);
//   wait.end(&scheduler);
#pragma once

#include <memory>
#include <optional>

#include "base/spin_lock.h"
#include "keyway/detail/task_core.h"
#include "runtime/linked_wait.h"
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
  // For a thread that will wait for several tasks. announce() checks the wait and links it into the
  // WaitGraph, which then refuses waits that would close a cycle. It gives no permits back, and
  // user code may run after it. begin_announced() gives back the permits that the task needs; after
  // it the thread only waits.
  Result<void> announce(detail::TaskCore& target);
  // True if the wait has begun: its task is not done. `is_first`: no other wait of the caller has.
  bool begin_announced(bool is_first, bool is_last);

  // Blocks until the calling task has its permits. `target`: the scheduler of the target; null: it is
  // not driven, and may be destroyed.
  void end(Scheduler* target) {
    begin_end();
    finish_end(target);
  }
  // The same in two steps, for a thread with several waits: the task gets its permits when
  // begin_end() was called for all of them. An announced wait stays linked until it is destroyed,
  // and may begin again.
  void begin_end();
  void finish_end(Scheduler* target);

 private:
  Result<void> begin(const detail::IntendedWait& wait);

  std::unique_ptr<detail::TaskWait> begun_;
  std::optional<ThreadWakeup> back_;  // woken when the permits are back
  // Of an announced wait.
  WaitEdges of_permitless_;
  WaitGraph::Edge edge_;  // of the task with permits, or of the thread
  bool linked_ = false;
};

}  // namespace keyway
