// What an exploration build (KEYWAY_EXPLORE) calls at each operation on shared state. The explorer in
// tests/explore implements these functions; no other build contains them.
//
// The explorer runs one thread at a time. Each hook that may block or yield is a point at which it may
// let another thread run first. A thread that the explorer does not manage passes through all hooks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/lock_ranks.h"

namespace keyway::explore {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // nullopt: for ever

enum class Access : std::uint8_t { kLoad, kStore, kReadModifyWrite };

// Before an operation on the atomic at `address`.
void before_access(const void* address);
// After it. The explorer keeps track of which operations happen before which.
void after_access(const void* address, Access access, std::memory_order order);
// An atomic begins its life at `address`.
void forget(const void* address);

// `held` is the state of the lock: 0 if it is free.
void lock(std::uint32_t& held, LockRank rank);
bool try_lock(std::uint32_t& held, LockRank rank);
void unlock(std::uint32_t& held);

// From announce_wait() on, a notify() reaches this thread, which then unlocks its mutex and waits.
void announce_wait(const void* condition);
void wait_for_notify(const void* condition, Deadline deadline);
void notify(const void* condition, bool all);

// False if the deadline has passed. The caller has compared the word with the expected value without a
// yield point in between.
bool wait_on_word(const void* word, Deadline deadline);
void wake_word(const void* word, bool all);

// The thread spins until another one does something.
void spin();

// Between them the thread is not interrupted, unless it blocks.
void begin_uninterrupted();
void end_uninterrupted();

}  // namespace keyway::explore
