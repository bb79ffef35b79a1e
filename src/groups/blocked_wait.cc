#include "groups/blocked_wait.h"

#include <utility>

#include "groups/group_engine.h"
#include "runtime/current_task.h"

namespace keyway {

using detail::TaskCore;

BlockedWait::~BlockedWait() { unlink(); }

void BlockedWait::unlink() {
  if (std::exchange(linked_, false)) WaitGraph::instance().end(edge_);
  of_permitless_.unlink();
}

bool BlockedWait::may_be_in_the_way() const {
  return edge_.waiter != nullptr || edge_.blocks_a_thread() ||
         edge_.operation->parent() != nullptr || edge_.operation->locks_held > 0;
}

Result<void> BlockedWait::link() {
  edge_.operation = &detail::Operation::current();
  edge_.block_this_thread();
  if (!may_be_in_the_way()) return {};
  Result<void> begun = WaitGraph::instance().begin(edge_);
  linked_ = begun.ok();
  if (!linked_) unlink();
  return begun;
}

// Links an edge for each task on this stack that holds no permits: a task whose listener makes this
// wait, or a task that its submitter runs. These tasks do not end before this wait does, and others
// may wait for them.
Result<void> BlockedWait::link_permitless(const detail::IntendedWait& wait) {
  const TaskCore* last = nullptr;
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    TaskCore* task = scope->task();
    if (task == nullptr || task == last || task->holds_permits()) continue;
    last = task;
    if (Result<void> begun = of_permitless_.link(*task, wait); !begun) {
      unlink();
      return begun;
    }
  }
  return {};
}

Result<void> BlockedWait::begin(TaskCore& target, bool bounded) {
  return begin({.operation = detail::Operation::current(), .task = &target, .bounded = bounded});
}

Result<void> BlockedWait::begin(const WantedWork& work, bool bounded) {
  return begin({.operation = detail::Operation::current(), .work = &work, .bounded = bounded});
}

Result<void> BlockedWait::begin(detail::IntendedWait wait) {
  if (Result<void> begun = link_permitless(wait); !begun) return begun;
  if (TaskCore* waiter = detail::task_on_this_thread()) {
    wait.blocks = true;
    auto begun = waiter->owner().begin_wait(*waiter, wait);
    if (!begun) {
      unlink();
      return begun.error();
    }
    of_task_ = std::move(begun).value();
    return {};
  }
  edge_.task = wait.task;
  edge_.work = wait.work;
  edge_.bounded = wait.bounded;
  return link();
}

Result<void> BlockedWait::announce(TaskCore& target) {
  const detail::IntendedWait wait{.operation = detail::Operation::current(), .task = &target};
  if (Result<void> begun = link_permitless(wait); !begun) return begun;
  edge_.task = &target;
  if (TaskCore* waiter = detail::task_on_this_thread()) {
    edge_.waiter = waiter;
    edge_.gives_back =
        &target.owner() == &waiter->owner() && waiter->group_key() == target.group_key();
    edge_.holds_permit = !edge_.gives_back;
    edge_.announced = true;
  }
  announced_ = true;
  return link();
}

// announce() has checked the wait. It does not begin if its task is done: a return would need a thread, which the check of
// another wait may have given away. If a limit went down since then, the owner gives back the
// permits that others need.
void BlockedWait::begin_announced(bool is_last) {
  if (edge_.waiter == nullptr) return;
  auto begun = edge_.waiter->owner().begin_wait(*edge_.waiter, {.operation = *edge_.operation,
                                                                .task = edge_.task,
                                                                .blocks = true,
                                                                .can_refuse = false,
                                                                .is_last_of_unchecked = is_last});
  if (begun) of_task_ = std::move(begun).value();
}

void BlockedWait::begin_end() {
  if (!announced_) unlink();
  if (of_task_ != nullptr) of_task_->end(back_.emplace());
}

void BlockedWait::finish_end(Scheduler& target) {
  if (of_task_ == nullptr) return;
  const WaitEnd end = block(*back_, {.scheduler = &target});
  KEYWAY_CHECK(end == WaitEnd::kDone,
               "a task wants its permits back, but the simulation has nothing more to run");
  of_task_ = nullptr;
}

}  // namespace keyway
