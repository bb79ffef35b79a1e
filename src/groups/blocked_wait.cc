#include "groups/blocked_wait.h"

#include <utility>

#include "groups/group_engine.h"
#include "runtime/current_task.h"

namespace keyway {

using detail::TaskCore;

BlockedWait::~BlockedWait() {
  if (linked_) WaitGraph::instance().end(edge_);
}

Result<void> BlockedWait::begin(TaskCore& target, bool bounded) {
  return begin({.operation = detail::Operation::current(),
                .task = &target,
                .bounded = bounded,
                .blocks = true});
}

Result<void> BlockedWait::begin(const WantedWork& work, bool bounded) {
  return begin({.operation = detail::Operation::current(),
                .work = &work,
                .bounded = bounded,
                .blocks = true});
}

Result<void> BlockedWait::begin(const detail::IntendedWait& wait) {
  auto begun = detail::begin_linked_wait(wait);
  if (!begun) return begun.error();
  begun_ = std::move(begun).value();
  return {};
}

Result<void> BlockedWait::announce(TaskCore& target) {
  detail::IntendedWait wait{
      .operation = detail::Operation::current(), .task = &target, .blocks = true};
  edge_.of_several = true;
  const WaitingTasks tasks = WaitingTasks::of(wait.operation, /*blocks=*/true);
  if (!may_be_in_the_way(tasks, wait)) return {};
  of_permitless_.link_unchecked(tasks, wait);
  wait.of_permitless = &of_permitless_;
  if (tasks.holder != nullptr) {
    const TaskCore& waiter = *tasks.holder;
    edge_.gives_back =
        &target.owner() == &waiter.owner() && waiter.group_key() == target.group_key();
    edge_.holds_permit = !edge_.gives_back;
    edge_.leaves_gate = waiter.owner().has_gate();
    edge_.announced = true;
  }
  Result<void> begun = WaitGraph::instance().begin(edge_, tasks.holder, wait);
  linked_ = begun.ok();
  if (!linked_) of_permitless_.unlink();
  return begun;
}

// announce() has checked the wait. It does not begin if its task is done: a return would need a thread, which the check of
// another wait may have given away. If a limit went down since then, the owner gives back the
// permits that others need.
bool BlockedWait::begin_announced(bool is_first, bool is_last) {
  if (edge_.waiter == nullptr) return false;
  auto begun = edge_.waiter->owner().begin_wait(*edge_.waiter, {.operation = *edge_.operation,
                                                                .task = edge_.task,
                                                                .blocks = true,
                                                                .can_refuse = false,
                                                                .is_last_of_unchecked = is_last,
                                                                .is_first = is_first});
  if (!begun) return false;
  begun_ = std::move(begun).value();
  return true;
}

void BlockedWait::begin_end() {
  if (begun_ != nullptr) begun_->end(back_.emplace());
}

void BlockedWait::finish_end(Scheduler* target) {
  if (begun_ == nullptr) return;
  const WaitEnd end = block(*back_, {.scheduler = target});
  KEYWAY_CHECK(end == WaitEnd::kDone,
               "a task wants its permits back, but the simulation has nothing more to run");
  begun_ = nullptr;
}

}  // namespace keyway
