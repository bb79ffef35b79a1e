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
  TaskCore* holder = nullptr;
  TaskCore* last = nullptr;
  for (const Operation* one = operation; one != nullptr; one = one->parent()) {
    TaskCore* task = one->task();
    if (task == nullptr || task == last) continue;
    last = task;
    if (task->holds_permits()) {
      if (holder == nullptr) holder = task;
    } else if (Result<void> begun = link_permitless(*task, blocks); !begun) {
      return begun;
    }
  }
  if (holder != nullptr) {
    auto begun = holder->owner().begin_wait(
        *holder,
        {.operation = *operation, .lock = this, .bounded = waiter_.bounded, .blocks = blocks});
    if (!begun) {
      unlink_permitless();
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

// A task whose listener makes this wait, or that its submitter runs.
Result<void> LockWait::link_permitless(TaskCore& task, bool blocks) {
  auto edge = std::make_unique<WaitGraph::Edge>();
  edge->operation = waiter_.operation;
  edge->waiter = &task;
  edge->lock = this;
  edge->bounded = waiter_.bounded;
  if (blocks) edge->block_this_thread();
  if (Result<void> begun = WaitGraph::instance().begin(*edge); !begun) {
    unlink_permitless();
    return begun;
  }
  of_permitless_.push_back(std::move(edge));
  return {};
}

void LockWait::unlink_permitless() {
  for (const auto& edge : of_permitless_) WaitGraph::instance().end(*edge);
  of_permitless_.clear();
}

void LockWait::end(Wakeup& wakeup) {
  unlink_permitless();
  of_task_ != nullptr ? of_task_->end(wakeup) : wakeup.wake();
}

void LockWait::end() {
  unlink_permitless();
  if (of_task_ == nullptr) return;
  ThreadWakeup back;
  of_task_->end(back);
  const WaitEnd end = block(back);
  KEYWAY_CHECK(end == WaitEnd::kDone,
               "a task wants its permits back, but the simulation has nothing more to run");
  of_task_ = nullptr;
}

void LockWait::forget() {
  unlink_permitless();
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
