#include "locks/lock_wait.h"

namespace keyway::detail {

Result<void> LockWait::begin() {
  const Operation* operation = waiter_.operation;
  if (operation == nullptr) return {};
  TaskCore* task = operation->task();
  // Nobody can be waiting for a thread that holds nothing.
  const bool may_be_waited_for =
      task != nullptr || operation->parent() != nullptr || operation->locks_held > 0;
  if (!may_be_waited_for) return {};
  Result<WaitGraph::Ticket> begun =
      WaitGraph::instance().begin({.operation = operation,
                                   .waiter = task,
                                   .lock = this,
                                   .holds_permit = task != nullptr && task->holds_permits(),
                                   .bounded = waiter_.bounded});
  if (!begun) return begun.error();
  ticket_ = *begun;
  return {};
}

std::vector<std::uint64_t> LockWait::in_the_way_of(const Operation& operation) const {
  return table_.with_entry(key_, hash_, [&](const LockEntry* entry) -> std::vector<std::uint64_t> {
    const bool stood_in_line = waiter_.entry != nullptr || waiter_.cancelled;
    if (entry == nullptr || (stood_in_line && !WaiterList::linked(waiter_))) return {};
    return holders_in_the_way(*entry, operation, waiter_.mode, &waiter_);
  });
}

}  // namespace keyway::detail
