// The tasks that do not go on before a wait has ended, and their edges in the WaitGraph.
//
// Several tasks may be on the stack of a wait: a task whose listener makes it, a task that its submitter
// runs, and the submitter. Others may wait for each of them. A coroutine in sync_wait() stands on the
// stack of its caller in the same way.
#pragma once

#include <memory>
#include <vector>

#include "keyway/detail/operation.h"
#include "keyway/detail/task_core.h"
#include "runtime/wait_graph.h"

namespace keyway {

// The innermost task with permits of which the operation is a part; null: none.
detail::TaskCore* permit_holder(const detail::Operation& operation);

struct WaitingTasks {
  // Those of a wait of `operation`: its own task, and those of the operations that it is a part of.
  // `blocks`: it blocks the calling thread, so no task on the thread's stack goes on either.
  static WaitingTasks of(const detail::Operation& operation, bool blocks);
  void add(detail::TaskCore* task);

  // The innermost one with permits. It gives back those that the target needs. The ones outside of it
  // wait for it, and are linked already.
  detail::TaskCore* holder = nullptr;
  // Those that are ending, or that their submitters run.
  std::vector<detail::TaskCore*> permitless;
};

// Whether other waits may depend on the one who makes this wait. If not, it need not be linked.
bool may_be_in_the_way(const WaitingTasks& tasks, const detail::IntendedWait& wait);

// The edges of a wait for all but the holder.
//
// Thread safety: as int.
class WaitEdges {
 public:
  WaitEdges() = default;
  ~WaitEdges() { unlink(); }
  WaitEdges(const WaitEdges&) = delete;
  WaitEdges& operator=(const WaitEdges&) = delete;

  // Links `wait` for a task without permits, or for an operation without a task if `waiter` is null.
  Result<void> link(detail::TaskCore* waiter, const detail::IntendedWait& wait,
                    const detail::TaskCore* returns_with = nullptr);
  // Links `wait` for the tasks without permits, without a check. They go on when the holder has its
  // permits again.
  void link_unchecked(const WaitingTasks& tasks, detail::IntendedWait wait);
  // The wait has ended.
  void set_over();
  void unlink();
  const std::vector<std::unique_ptr<WaitGraph::Edge>>& all() const { return edges_; }

 private:
  std::vector<std::unique_ptr<WaitGraph::Edge>> edges_;
};

// A coroutine, as the target of the wait of the thread that runs it.
class CoroutineOnThread final : public WantedWork {
 public:
  explicit CoroutineOnThread(const detail::Operation& operation) : operation_(operation.id()) {}
  Scheduler* scheduler() const override { return nullptr; }
  std::uint64_t operation() const override { return operation_; }
  std::string name() const override { return "a coroutine that it runs"; }

 private:
  const std::uint64_t operation_;  // the coroutine may be gone first
};

// The wait of a thread for a coroutine that is a part of what it does. The tasks on the stack keep their
// permits: the waits of the coroutine give them back.
class PartWait {
 public:
  PartWait() = default;
  ~PartWait() { end(); }
  PartWait(const PartWait&) = delete;
  PartWait& operator=(const PartWait&) = delete;

  Result<void> begin(detail::IntendedWait wait);
  void end();

 private:
  WaitEdges of_permitless_;
  WaitGraph::Edge edge_;  // of the task with permits, or of the thread
  bool linked_ = false;
};

}  // namespace keyway
