// A wait for a lock in the WaitGraph.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "locks/lock_table.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

class LockWait final : private WantedLock {
 public:
  LockWait(LockTable& table, std::string_view key, std::size_t hash, LockWaiter& waiter)
      : table_(table), key_(key), hash_(hash), waiter_(waiter) {}
  ~LockWait() = default;
  LockWait(const LockWait&) = delete;
  LockWait& operator=(const LockWait&) = delete;

  // Stands in line, or takes the lock at once: see entered(). `blocks`: the wait blocks the calling
  // thread, and is not a coroutine's. A task gives its global permit back for the wait. An error
  // (kWaitCycle, kNoThread) if the wait would never end: the caller then withdraws from the line,
  // unless it was given the lock meanwhile.
  Result<void> begin(bool blocks);
  // Takes the waiter out of the line. False if it does not stand there. `cancels`: see LockTable::withdraw().
  bool leave_line(bool cancels = false);
  LockTable::Entered entered() const { return entered_; }
  bool stands_in_line() const {
    return entered_ == LockTable::Entered::kIsFirst || entered_ == LockTable::Entered::kWaits;
  }
  // Ends the wait. Wakes when the task has its permits again, perhaps at once.
  void end(Wakeup& wakeup);
  // The same for a thread: blocks until the task has its permits.
  void end();
  // Unlinks the wait, when the waiter has gone on.
  void forget() { linked_ = nullptr; }

 private:
  void linked() override {
    waiter_.in_graph = true;
    stand_in_line();
  }
  void unlinked() override { waiter_.in_graph = false; }
  // Once: for the first edge of this wait that is linked, or if none is.
  void stand_in_line() {
    if (std::exchange(stood_in_line_, true)) return;
    entered_ = table_.acquire_or_wait(key_, hash_, waiter_);
  }
  std::uint64_t id() const override { return table_.lock_id(hash_); }
  std::vector<std::uint64_t> in_the_way_of(const Operation& waiter) const override;
  Granted look_again() override {
    return {table_.look_again(key_, hash_), &LockWaiter::tell_granted};
  }
  Granted refuse(Error error) override {
    return {table_.refuse(hash_, waiter_, std::move(error)), &LockWaiter::tell_granted};
  }
  std::string name() const override { return "key " + quoted(key_); }

  LockTable& table_;
  const std::string_view key_;
  const std::size_t hash_;
  LockWaiter& waiter_;
  bool stood_in_line_ = false;
  LockTable::Entered entered_ = LockTable::Entered::kCancelled;
  std::unique_ptr<TaskWait> linked_;
};

}  // namespace keyway::detail
