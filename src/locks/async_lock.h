// A coroutine that waits for a lock.
//
// It may be told that the lock is its own, or be asked to stop, on other threads at any moment once it stands in
// line; both are decided under the shard's lock, so one of them comes true, and that one resumes the coroutine. Nothing
// of this object may be touched then.
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
  // `context`: null for a coroutine that is not a keyway::Task; it belongs to nobody, and is resumed by whoever
  // releases the lock.
  AsyncLock(LockTable& table, std::string_view key, std::size_t hash, LockMode wanted,
            const TaskContext* context);

  // True if the coroutine is to be suspended. Throws Exception (kWaitCycle).
  bool begin(std::coroutine_handle<> coroutine);
  // The lock, once the coroutine goes on. Throws CancelledError.
  LockTable::Held end();

 private:
  class Line;
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
  std::coroutine_handle<> coroutine_;
  Resumption resumption_;
  LockWait wait_;
  // begin() may still be at work when it is told that the lock is its own: the second of the two goes on.
  Atomic<bool> first_has_come_{false};
  std::optional<std::stop_callback<OnStop>> on_stop_;
};

}  // namespace keyway::detail
