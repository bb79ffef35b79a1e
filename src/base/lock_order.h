// Checks that each thread takes its locks in the order of lock_ranks.h.
//
// With KEYWAY_CHECK_LOCK_RANKS, which the presets dev, asan and tsan define, each thread records the
// ranks of the locks that it holds. A lock that is taken in the wrong order ends the program with a
// message that names both locks, also when no other thread is there to complete the deadlock.
// Without the definition these functions are empty.
//
// Thread safety: every function from any thread; the record is the calling thread's.
#pragma once

#include "base/lock_ranks.h"

namespace keyway::lock_order {

#if defined(KEYWAY_CHECK_LOCK_RANKS)

// The thread is about to wait for a lock. try_lock() does not call it: it cannot block.
void before_lock(LockRank rank);
void locked(LockRank rank);
void unlocked(LockRank rank);
// The thread is about to wait for a condition, and gives up this lock meanwhile: it must not hold any other.
void before_wait(LockRank rank);

#else

inline void before_lock(LockRank) {}
inline void locked(LockRank) {}
inline void unlocked(LockRank) {}
inline void before_wait(LockRank) {}

#endif

}  // namespace keyway::lock_order
