#include "runtime/linked_wait.h"

#include <algorithm>
#include <utility>

#include "runtime/current_task.h"
#include "runtime/thread_context.h"

namespace keyway {

using detail::CurrentTaskScope;
using detail::IntendedWait;
using detail::Operation;
using detail::TaskCore;
using detail::TaskWait;

namespace {

// A coroutine of an InlineRun also keeps the tasks below it on the thread's stack from going on.
bool blocks_a_stack(const IntendedWait& wait) {
  return wait.blocks || wait.operation.is_confined();
}

// A wait that more than one edge stands for, or one without a task.
class LinkedWait final : public TaskWait {
 public:
  // Links the permitless ones without a check, so that the check of the last edge, for all of them,
  // knows which permits the holder gives back.
  Result<void> begin(IntendedWait wait, WaitingTasks tasks) {
    TaskCore* last = tasks.holder;
    if (last == nullptr && !tasks.permitless.empty()) {
      last = tasks.permitless.back();
      tasks.permitless.pop_back();
    }
    edges_.link_unchecked(tasks, wait);
    wait.of_permitless = &edges_;
    if (tasks.holder == nullptr) return edges_.link(last, wait);
    auto begun = tasks.holder->owner().begin_wait(*tasks.holder, wait);
    if (!begun) return begun.error();
    of_holder_ = std::move(begun).value();
    return {};
  }

  void end(detail::Wakeup& wakeup) noexcept override {
    edges_.set_over();  // linked until the waiter has gone on
    // A waiter that is woken may destroy this object.
    of_holder_ != nullptr ? of_holder_->end(wakeup) : wakeup.wake();
  }

 private:
  WaitEdges edges_;
  std::unique_ptr<TaskWait> of_holder_;
};

}  // namespace

TaskCore* permit_holder(const Operation& operation) {
  for (const Operation* one = &operation; one != nullptr; one = one->parent()) {
    if (one->task() != nullptr && one->task()->holds_permits()) return one->task();
  }
  return nullptr;
}

WaitingTasks WaitingTasks::of(const Operation& operation, bool blocks) {
  WaitingTasks tasks;
  for (const Operation* one = &operation; one != nullptr; one = one->parent()) {
    tasks.add(one->task());
  }
  const CurrentTaskScope* scope = blocks ? CurrentTaskScope::innermost() : nullptr;
  for (; scope != nullptr; scope = scope->outer()) tasks.add(scope->task());
  return tasks;
}

void WaitingTasks::add(TaskCore* task) {
  if (task == nullptr) return;
  if (task->holds_permits()) {
    if (holder == nullptr) holder = task;
  } else if (std::find(permitless.begin(), permitless.end(), task) == permitless.end()) {
    permitless.push_back(task);
  }
}

// No wait depends on a thread that belongs to no scheduler and holds no lock.
bool may_be_in_the_way(const WaitingTasks& tasks, const IntendedWait& wait) {
  return tasks.holder != nullptr || !tasks.permitless.empty() ||
         (wait.blocks && Scheduler::current() != nullptr) || wait.operation.parent() != nullptr ||
         wait.operation.locks_held() > 0;
}

Result<void> WaitEdges::link(TaskCore* waiter, const IntendedWait& wait,
                             const TaskCore* returns_with) {
  auto edge = std::make_unique<WaitGraph::Edge>();
  edge->returns_with = returns_with;
  Result<void> linked = WaitGraph::instance().begin(*edge, waiter, wait);
  if (linked) edges_.push_back(std::move(edge));
  return linked;
}

void WaitEdges::link_unchecked(const WaitingTasks& tasks, IntendedWait wait) {
  wait.can_refuse = false;
  // An error says that the wait is over already.
  for (TaskCore* waiter : tasks.permitless) (void)link(waiter, wait, tasks.holder);
}

void WaitEdges::set_over() {
  for (const auto& edge : edges_) (void)WaitGraph::instance().set_over(*edge);
}

void WaitEdges::unlink() {
  for (const auto& edge : edges_) WaitGraph::instance().end(*edge);
  edges_.clear();
}

Result<void> PartWait::begin(IntendedWait wait) {
  const WaitingTasks tasks = WaitingTasks::of(wait.operation, blocks_a_stack(wait));
  if (!may_be_in_the_way(tasks, wait)) return {};
  of_permitless_.link_unchecked(tasks, wait);
  wait.of_permitless = &of_permitless_;
  edge_.holds_permit = tasks.holder != nullptr;
  Result<void> begun = WaitGraph::instance().begin(edge_, tasks.holder, wait);
  linked_ = begun.ok();
  return begun;
}

void PartWait::end() {
  if (std::exchange(linked_, false)) WaitGraph::instance().end(edge_);
  of_permitless_.unlink();
}

Result<std::unique_ptr<TaskWait>> detail::begin_linked_wait(const IntendedWait& wait) {
  WaitingTasks tasks = WaitingTasks::of(wait.operation, blocks_a_stack(wait));
  if (tasks.permitless.empty() && tasks.holder != nullptr) {
    return tasks.holder->owner().begin_wait(*tasks.holder, wait);
  }
  if (!may_be_in_the_way(tasks, wait)) return std::unique_ptr<TaskWait>();
  auto linked = std::make_unique<LinkedWait>();
  if (Result<void> begun = linked->begin(wait, std::move(tasks)); !begun) return begun.error();
  return std::unique_ptr<TaskWait>(std::move(linked));
}

}  // namespace keyway
