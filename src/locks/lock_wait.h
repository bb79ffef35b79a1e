// A wait for a lock in the WaitGraph.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "locks/lock_table.h"
#include "runtime/permitless_edges.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

class LockWait final : private WantedLock {
 public:
  LockWait(LockTable& table, std::string_view key, std::size_t hash, LockWaiter& waiter)
      : table_(table), key_(key), hash_(hash), waiter_(waiter) {}
  ~LockWait() { forget(); }
  LockWait(const LockWait&) = delete;
  LockWait& operator=(const LockWait&) = delete;

  // Stands in line, or takes the lock at once: see entered(). `blocks`: the wait blocks the calling
  // thread, and is not a coroutine's. A task gives its global permit back for the wait. An error
  // (kWaitCycle, kNoThread) if the wait would never end: the caller then withdraws from the line,
  // unless it was given the lock meanwhile.
  Result<void> begin(bool blocks);
  LockTable::Entered entered() const { return entered_; }
  bool stands_in_line() const {
    return entered_ == LockTable::Entered::kIsFirst || entered_ == LockTable::Entered::kWaits;
  }
  // Ends the wait. Wakes when the task has its permits again, perhaps at once.
  void end(Wakeup& wakeup);
  // The same for a thread: blocks until the task has its permits.
  void end();
  // Unlinks the wait, when the waiter has gone on.
  void forget();

 private:
  // Once, for the first edge of this wait that is linked.
  void stand_in_line() override {
    if (std::exchange(stood_in_line_, true)) return;
    entered_ = table_.acquire_or_wait(key_, hash_, waiter_);
  }
  std::vector<std::uint64_t> in_the_way_of(const Operation& waiter) const override;
  std::string name() const override { return "key \"" + std::string(key_) + '"'; }

  LockTable& table_;
  const std::string_view key_;
  const std::size_t hash_;
  LockWaiter& waiter_;
  bool stood_in_line_ = false;
  LockTable::Entered entered_ = LockTable::Entered::kCancelled;
  std::unique_ptr<TaskWait> of_task_;
  PermitlessEdges of_permitless_;
  // For a waiter that is not a task.
  WaitGraph::Edge edge_;
  bool linked_ = false;
};

}  // namespace keyway::detail
