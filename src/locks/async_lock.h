// A coroutine that waits for a lock.
//
// Once it stands in line, other threads may grant it the lock or stop it at any time. Both take the
// shard's lock, so only the first has an effect, and resumes the coroutine. Then this object may be
// destroyed, and must not be touched.
#pragma once

#include <coroutine>
#include <optional>
#include <stop_token>
#include <string_view>

#include "keyway/detail/lock_waiter.h"
#include "keyway/task.h"
#include "locks/lock_table.h"
#include "locks/lock_wait.h"

namespace keyway::detail {

class AsyncLock final : public LockWaiter, private Wakeup {
 public:
  // `context`: null for a coroutine that is not a keyway::Task.
  AsyncLock(LockTable& table, std::string_view key, std::size_t hash, LockMode wanted,
            const TaskContext* context);
  // REQUIRES: if the coroutine has not gone on, it stands in line: it leaves the line.
  ~AsyncLock();

  // True if the coroutine is to be suspended. Throws Exception (kWaitCycle).
  bool begin(std::coroutine_handle<> coroutine);
  // The lock, once the coroutine goes on. Throws CancelledError.
  LockTable::Held end();

 private:
  struct OnStop {
    AsyncLock* lock;
    void operator()() const { lock->stop(); }
  };

  void granted() noexcept override { leave_line(); }
  void stop();
  // It stood in line, and does no more.
  void leave_line();
  void wake() noexcept override;

  LockTable& table_;
  const std::string_view key_;
  const std::size_t hash_;
  const TaskContext* const context_;
  std::coroutine_handle<> coroutine_;  // until it goes on
  Resumption resumption_;
  LockWait wait_;
  // begin() may still be at work when it is told that the lock is its own: the second of the two goes on.
  Atomic<bool> first_has_come_{false};
  std::optional<std::stop_callback<OnStop>> on_stop_;
};

}  // namespace keyway::detail
