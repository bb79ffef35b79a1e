#include "groups/blocked_wait.h"

#include <utility>

#include "groups/group_engine.h"
#include "runtime/current_task.h"

namespace keyway {

using detail::TaskCore;

BlockedWait::~BlockedWait() { unlink(); }

void BlockedWait::unlink() {
  if (std::exchange(linked_, false)) WaitGraph::instance().end(edge_);
  for (const std::unique_ptr<WaitGraph::Edge>& edge : of_permitless_) {
    WaitGraph::instance().end(*edge);
  }
  of_permitless_.clear();
}

bool BlockedWait::may_be_in_the_way() const {
  return edge_.waiter != nullptr || edge_.thread != nullptr ||
         edge_.operation->parent() != nullptr || edge_.operation->locks_held > 0;
}

Result<void> BlockedWait::link(bool counts_thread) {
  edge_.operation = &detail::Operation::current();
  edge_.thread = counts_thread ? Scheduler::current() : nullptr;
  if (!may_be_in_the_way()) return {};
  Result<void> begun = WaitGraph::instance().begin(edge_);
  linked_ = begun.ok();
  if (!linked_) unlink();
  return begun;
}

// Tasks on this stack that hold no permits: they are ending, and this wait is in a listener of theirs, or their
// submitter runs them. Others may wait for them, and they are not over before this wait. There may be several.
Result<void> BlockedWait::link_permitless(TaskCore* target, const WantedWork* work, bool bounded) {
  const TaskCore* last = nullptr;
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    TaskCore* task = scope->task();
    if (task == nullptr || task == last || task->holds_permits()) continue;
    last = task;
    auto edge = std::make_unique<WaitGraph::Edge>();
    edge->operation = &detail::Operation::current();
    edge->waiter = task;
    edge->task = target;
    edge->work = work;
    edge->bounded = bounded;
    if (Result<void> begun = WaitGraph::instance().begin(*edge); !begun) {
      unlink();
      return begun;
    }
    of_permitless_.push_back(std::move(edge));
  }
  return {};
}

Result<void> BlockedWait::begin(TaskCore& target, bool bounded) {
  if (Result<void> begun = link_permitless(&target, nullptr, bounded); !begun) return begun;
  if (TaskCore* waiter = detail::task_on_this_thread()) {
    auto begun = waiter->owner().begin_wait(*waiter, target, bounded, /*blocks=*/true);
    if (!begun) {
      unlink();
      return begun.error();
    }
    of_task_ = std::move(begun).value();
    return {};
  }
  edge_.task = &target;
  edge_.bounded = bounded;
  return link();
}

Result<void> BlockedWait::begin(const WantedWork& work, bool bounded) {
  if (Result<void> begun = link_permitless(nullptr, &work, bounded); !begun) return begun;
  TaskCore* waiter = detail::task_on_this_thread();
  if (waiter != nullptr) {
    edge_.waiter = waiter;
    edge_.holds_permit = true;
  }
  edge_.work = &work;
  edge_.bounded = bounded;
  // It keeps its lane's permit, unless the work turns out to need it. The work may need its global one.
  edge_.can_give_back = waiter != nullptr;
  if (waiter != nullptr) of_task_ = waiter->owner().begin_rest(*waiter);
  Result<void> begun = link();
  if (!begun && waiter != nullptr) end(waiter->owner().scheduler());
  return begun;
}

Result<void> BlockedWait::announce(TaskCore& target, const BlockedWait* before) {
  if (Result<void> begun = link_permitless(&target, nullptr, /*bounded=*/false); !begun)
    return begun;
  edge_.task = &target;
  if (TaskCore* waiter = detail::task_on_this_thread()) {
    const bool same_lane =
        &target.owner() == &waiter->owner() && waiter->group_key() == target.group_key();
    // If one of the waits gives the lane's permit back, no other one keeps it.
    edge_.waiter = waiter;
    edge_.holds_permit = !same_lane && (before == nullptr || before->edge_.holds_permit);
  }
  announced_ = true;
  return link(/*counts_thread=*/before == nullptr);
}

// If it is refused at this point, permits that others may need are kept: they were not counted on, for then an
// announced wait would have been refused.
void BlockedWait::begin_announced() {
  if (edge_.waiter == nullptr) return;
  // The thread is in the announced edge, which stays.
  auto begun = edge_.waiter->owner().begin_wait(*edge_.waiter, *edge_.task, /*bounded=*/false,
                                                /*blocks=*/false);
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
