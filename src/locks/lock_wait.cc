#include "locks/lock_wait.h"

#include <utility>

#include "runtime/thread_wakeup.h"

namespace keyway::detail {

Result<void> LockWait::begin(bool blocks) {
  const Operation* operation = waiter_.operation;
  if (operation == nullptr) {
    stand_in_line();
    return {};
  }
  (void)operation->id();  // the graph finds the wait by it
  // No task that the operation is a part of ends before the wait does. The innermost one with
  // permits gives the global one back.
  const IntendedWait wait{
      .operation = *operation, .lock = this, .bounded = waiter_.bounded, .blocks = blocks};
  TaskCore* holder = nullptr;
  TaskCore* last = nullptr;
  for (const Operation* one = operation; one != nullptr; one = one->parent()) {
    TaskCore* task = one->task();
    if (task == nullptr || task == last) continue;
    last = task;
    if (task->holds_permits()) {
      if (holder == nullptr) holder = task;
    } else if (Result<void> begun = of_permitless_.link(*task, wait); !begun) {
      return begun;
    }
  }
  if (holder != nullptr) {
    auto begun = holder->owner().begin_wait(*holder, wait);
    if (!begun) {
      of_permitless_.unlink();
      return begun.error();
    }
    of_task_ = std::move(begun).value();
    return {};
  }
  if (!of_permitless_.empty()) return {};
  edge_.operation = operation;
  edge_.lock = this;
  edge_.bounded = waiter_.bounded;
  if (blocks) edge_.block_this_thread();
  // No wait depends on a thread that belongs to no scheduler and holds no lock.
  const bool may_be_in_the_way =
      edge_.blocks_a_thread() || operation->parent() != nullptr || operation->locks_held > 0;
  if (!may_be_in_the_way) {
    stand_in_line();
    return {};
  }
  Result<void> begun = WaitGraph::instance().begin(edge_);
  linked_ = begun.ok();
  return begun;
}

void LockWait::end(Wakeup& wakeup) {
  of_permitless_.unlink();
  of_task_ != nullptr ? of_task_->end(wakeup) : wakeup.wake();
}

void LockWait::end() {
  of_permitless_.unlink();
  if (of_task_ == nullptr) return;
  ThreadWakeup back;
  of_task_->end(back);
  const WaitEnd end = block(back);
  KEYWAY_CHECK(end == WaitEnd::kDone,
               "a task wants its permits back, but the simulation has nothing more to run");
  of_task_ = nullptr;
}

void LockWait::forget() {
  of_permitless_.unlink();
  of_task_ = nullptr;
  if (std::exchange(linked_, false)) WaitGraph::instance().end(edge_);
}

std::vector<std::uint64_t> LockWait::in_the_way_of(const Operation& operation) const {
  return table_.with_entry(key_, hash_, [&](const LockEntry* entry) -> std::vector<std::uint64_t> {
    const bool stood_in_line = waiter_.entry != nullptr || waiter_.cancelled;
    if (entry == nullptr || (stood_in_line && !WaiterList::linked(waiter_))) return {};
    return holders_in_the_way(*entry, operation, waiter_.mode, &waiter_);
  });
}

}  // namespace keyway::detail
