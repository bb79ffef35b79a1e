// A lock of KeyLocks where a mutex is wanted.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "keyway/key_locks.h"

namespace keyway {

// One key, as std::unique_lock, std::shared_lock, std::scoped_lock and std::lock() know a mutex: Lockable,
// TimedLockable, SharedTimedLockable. Re-entrant, as KeyLocks is. A timeout too long for Duration is no timeout.
//
//   KeyLock lock(locks, "project-42");
//   std::unique_lock held(lock, 100ms);
//
// For several keys prefer KeyLocks::lock_all(), which locks them in one order. std::scoped_lock and std::lock() lock one, try
// the others, and begin again if one is held: a lock that goes to its waiters in the order of arrival is hardly ever free
// under load, so they try very often.
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
    return try_for(time_until(deadline), LockMode::kExclusive);
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
    return try_for(time_until(deadline), LockMode::kShared);
  }
  void unlock_shared() { locks_->unlock(key_, LockMode::kShared); }

  std::string_view key() const { return key_; }

 private:
  static bool keep(KeyLocks::Guard guard) {
    return std::exchange(guard.locks_, nullptr) != nullptr;  // unlock() gives it back
  }
  template <class Rep, class Period>
  bool try_for(std::chrono::duration<Rep, Period> timeout, LockMode mode) {
    return keep(locks_->try_lock_for(key_, clamped<Duration>(timeout), mode));
  }

  // Rounds up; a value out of range becomes the nearest one that `To` can hold.
  template <class To, class Rep, class Period>
  static To clamped(std::chrono::duration<Rep, Period> time) {
    using InDouble = std::chrono::duration<double, typename To::period>;  // does not overflow
    const InDouble wide(time);
    if (wide >= InDouble(To::max())) return To::max();
    if (wide <= InDouble(To::min())) return To::min();
    return std::chrono::ceil<To>(time);
  }
  // Zero for a deadline in the past.
  template <class Clock, class Length>
  static typename Clock::duration time_until(std::chrono::time_point<Clock, Length> deadline) {
    using Time = typename Clock::duration;
    const Time now = Clock::now().time_since_epoch();
    const Time end = clamped<Time>(deadline.time_since_epoch());
    if (end <= now) return Time::zero();
    // The epoch of a clock may lie in the future: then now() is negative.
    return now < Time::zero() && end > Time::max() + now ? Time::max() : end - now;
  }

  KeyLocks* locks_;
  std::string key_;
};

}  // namespace keyway
