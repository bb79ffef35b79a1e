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
  auto begun = begin_linked_wait(
      {.operation = *operation, .lock = this, .bounded = waiter_.bounded, .blocks = blocks});
  if (!begun) return begun.error();
  linked_ = std::move(begun).value();
  stand_in_line();
  return {};
}

// A search takes only the next waiter ahead of a waiter, and the holders of the lock from that one's own wait. If the one
// ahead left the line between the two, the search would miss the holders.
bool LockWait::leave_line(bool cancels) {
  LockTable::News news;
  const bool left = WaitGraph::instance().between_searches(
      [&] { return table_.withdraw(hash_, waiter_, cancels, news); });
  news.tell();
  return left;
}

void LockWait::end(Wakeup& wakeup) { linked_ != nullptr ? linked_->end(wakeup) : wakeup.wake(); }

void LockWait::end() {
  if (linked_ == nullptr) return;
  ThreadWakeup back;
  linked_->end(back);
  const WaitEnd end = block(back);
  KEYWAY_CHECK(end == WaitEnd::kDone,
               "a task wants its permits back, but the simulation has nothing more to run");
  linked_ = nullptr;
}

std::vector<std::uint64_t> LockWait::in_the_way_of(const Operation& operation) const {
  return table_.with_entry(key_, hash_, [&](const LockEntry* entry) -> std::vector<std::uint64_t> {
    const bool stood_in_line = waiter_.entry != nullptr || waiter_.cancelled;
    if (entry == nullptr || (stood_in_line && !WaiterList::linked(waiter_))) return {};
    return holders_in_the_way(*entry, operation, waiter_.mode, &waiter_);
  });
}

}  // namespace keyway::detail
