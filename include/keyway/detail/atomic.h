// The atomics that threads of the library share: std::atomic.
//
// They have a name of their own so that the interleaving explorer (tests/explore) can compile the same
// sources with KEYWAY_EXPLORE, where every operation is a point at which another thread may run first.
#pragma once

#include <atomic>

#if defined(KEYWAY_EXPLORE)
#include "base/explored_atomic.h"
#endif

namespace keyway::detail {

#if defined(KEYWAY_EXPLORE)
template <class T>
using Atomic = explore::ExploredAtomic<T>;
#else
template <class T>
using Atomic = std::atomic<T>;
#endif

}  // namespace keyway::detail
