#include "groups/blocked_wait.h"

#include "groups/group_engine.h"
#include "runtime/current_task.h"

namespace keyway {

using detail::TaskCore;

BlockedWait::~BlockedWait() {
  if (linked_) WaitGraph::instance().end(edge_);
}

bool BlockedWait::may_be_in_the_way() {
  edge_.operation = &detail::Operation::current();
  edge_.thread = Scheduler::current();
  // A task that is ending has no permits, but others may wait for it.
  TaskCore* task = edge_.operation->task();
  if (task != nullptr && task->ending()) edge_.waiter = task;
  return edge_.waiter != nullptr || edge_.thread != nullptr ||
         edge_.operation->parent() != nullptr || edge_.operation->locks_held > 0;
}

Result<void> BlockedWait::link() {
  if (!may_be_in_the_way()) return {};
  Result<void> begun = WaitGraph::instance().begin(edge_);
  linked_ = begun.ok();
  return begun;
}

Result<void> BlockedWait::begin(TaskCore& target, bool bounded) {
  if (TaskCore* waiter = detail::task_on_this_thread()) {
    auto begun = waiter->owner().begin_wait(*waiter, target, bounded, /*blocks=*/true);
    if (!begun) return begun.error();
    of_task_ = std::move(begun).value();
    return {};
  }
  edge_.task = &target;
  edge_.bounded = bounded;
  return link();
}

Result<void> BlockedWait::begin(const WantedWork& work, bool bounded) {
  if (TaskCore* waiter = detail::task_on_this_thread()) {
    edge_.waiter = waiter;
    edge_.holds_permit = true;
  }
  edge_.work = &work;
  edge_.bounded = bounded;
  return link();
}

void BlockedWait::begin_end() {
  if (linked_) WaitGraph::instance().end(edge_);
  linked_ = false;
  if (of_task_ != nullptr) of_task_->end(back_);
}

void BlockedWait::finish_end(Scheduler& target) {
  if (of_task_ == nullptr) return;
  const WaitEnd end = block(back_, {.scheduler = &target});
  KEYWAY_CHECK(end == WaitEnd::kDone,
               "a task wants its permits back, but the simulation has nothing more to run");
  of_task_ = nullptr;
}

}  // namespace keyway
