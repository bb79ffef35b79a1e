#include "locks/lock_wait.h"

namespace keyway::detail {

Result<void> LockWait::begin(Scheduler* thread) {
  const Operation* operation = waiter_.operation;
  if (operation == nullptr) return {};
  TaskCore* task = operation->task();
  // Nothing depends on a thread that is no scheduler's and holds no lock.
  const bool may_be_in_the_way = thread != nullptr || task != nullptr ||
                                 operation->parent() != nullptr || operation->locks_held > 0;
  if (!may_be_in_the_way) return {};
  edge_.operation = operation;
  edge_.waiter = task;
  edge_.lock = this;
  edge_.holds_permit = task != nullptr && task->holds_permits();
  edge_.bounded = waiter_.bounded;
  edge_.thread = thread;
  Result<void> begun = WaitGraph::instance().begin(edge_);
  linked_ = begun.ok();
  return begun;
}

std::vector<std::uint64_t> LockWait::in_the_way_of(const Operation& operation) const {
  return table_.with_entry(key_, hash_, [&](const LockEntry* entry) -> std::vector<std::uint64_t> {
    const bool stood_in_line = waiter_.entry != nullptr || waiter_.cancelled;
    if (entry == nullptr || (stood_in_line && !WaiterList::linked(waiter_))) return {};
    return holders_in_the_way(*entry, operation, waiter_.mode, &waiter_);
  });
}

}  // namespace keyway::detail
