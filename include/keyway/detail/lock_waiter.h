// Somebody who stands in line for a lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "keyway/detail/atomic.h"
#include "keyway/detail/operation.h"
#include "keyway/detail/waiter.h"
#include "keyway/error.h"
#include "keyway/lock_mode.h"
#include "keyway/scheduler.h"

namespace keyway::detail {

struct LockEntry;

class LockWaiter : public Waiter {
 public:
  LockWaiter(const Operation* who, LockMode wanted, bool leaves)
      : operation(who), mode(wanted), bounded(leaves) {}
  LockWaiter(const LockWaiter&) = delete;
  LockWaiter& operator=(const LockWaiter&) = delete;

  // Told once, under no lock, that the lock is its own, or that its wait is refused. Runs no code of the user: it wakes a
  // thread, or posts a coroutine. It may be destroyed meanwhile.
  virtual void granted() noexcept = 0;
  // Tells a chain of waiters, linked by `next`.
  static void tell_granted(Waiter* chain) noexcept {
    while (chain != nullptr) {
      auto& waiter = static_cast<LockWaiter&>(*chain);
      chain = chain->next;
      waiter.granted();
    }
  }
  // It is the first in line now; under its shard's lock. What is to be given to futex_wake_one() afterwards, or null.
  virtual const Atomic<std::uint32_t>* comes_first() noexcept { return nullptr; }

  const Operation* const operation;  // null: nobody that Keyway knows
  const LockMode mode;
  const bool bounded;              // leaves the line by itself, by a timeout
  bool again = false;              // it, or one it is a part of, holds the lock already
  bool cancelled = false;          // may not get into the line any more; under its shard's lock
  bool in_graph = false;           // the WaitGraph knows the wait; under the graph's mutex
  std::unique_ptr<Error> refusal;  // of a wait that was refused after it had begun
  LockEntry* entry = nullptr;      // of the lock in whose line it stands, or that it has got

  // The clock of its waiting time: that of `scheduler` if that is driven, which may have a time of its own, else the real one.
  // A user's scheduler must not be asked under the shard's lock. Null: there is none.
  void begin_clock(const Scheduler* scheduler) {
    clock_ = scheduler != nullptr && scheduler->is_driven() ? scheduler : nullptr;
    since_ = now();
  }
  // REQUIRES: it stands in line, so its scheduler is there.
  Duration waiting_time() const { return now() - since_; }

 protected:
  ~LockWaiter() = default;

 private:
  TimePoint now() const {
    return clock_ != nullptr ? clock_->now() : std::chrono::steady_clock::now();
  }

  const Scheduler* clock_ = nullptr;
  TimePoint since_{};
};

}  // namespace keyway::detail
