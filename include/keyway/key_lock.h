// A lock of KeyLocks where a mutex is wanted.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "keyway/key_locks.h"

namespace keyway {

// One key, as std::unique_lock, std::shared_lock, std::scoped_lock and std::lock() know a mutex: Lockable,
// TimedLockable, SharedTimedLockable. Re-entrant, as KeyLocks is.
//
//   KeyLock lock(locks, "project-42");
//   std::unique_lock held(lock, 100ms);
//
// Thread safety: every method from any thread.
// Lifetime: must not outlive its KeyLocks.
class KeyLock {
 public:
  // Throws Exception (kInvalidArgument) for an empty key.
  KeyLock(KeyLocks& locks, std::string_view key);

  void lock() { keep(locks_->lock(key_)); }
  bool try_lock() { return keep(locks_->try_lock(key_)); }
  template <class Rep, class Period>
  bool try_lock_for(std::chrono::duration<Rep, Period> timeout) {
    return try_for(timeout, LockMode::kExclusive);
  }
  template <class Clock, class Length>
  bool try_lock_until(std::chrono::time_point<Clock, Length> deadline) {
    return try_for(deadline - Clock::now(), LockMode::kExclusive);
  }
  // REQUIRES: it is held. That of the calling operation, if it has it; else whoever's.
  void unlock() { locks_->unlock(key_, LockMode::kExclusive); }

  void lock_shared() { keep(locks_->lock(key_, LockMode::kShared)); }
  bool try_lock_shared() { return keep(locks_->try_lock(key_, LockMode::kShared)); }
  template <class Rep, class Period>
  bool try_lock_shared_for(std::chrono::duration<Rep, Period> timeout) {
    return try_for(timeout, LockMode::kShared);
  }
  template <class Clock, class Length>
  bool try_lock_shared_until(std::chrono::time_point<Clock, Length> deadline) {
    return try_for(deadline - Clock::now(), LockMode::kShared);
  }
  void unlock_shared() { locks_->unlock(key_, LockMode::kShared); }

  std::string_view key() const { return key_; }

 private:
  static bool keep(KeyLocks::Guard guard) {
    return std::exchange(guard.locks_, nullptr) != nullptr;  // unlock() gives it back
  }
  template <class Rep, class Period>
  bool try_for(std::chrono::duration<Rep, Period> timeout, LockMode mode) {
    return keep(locks_->try_lock_for(key_, std::chrono::ceil<Duration>(timeout), mode));
  }

  KeyLocks* locks_;
  std::string key_;
};

}  // namespace keyway
