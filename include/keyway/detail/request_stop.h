// Requests a stop of tasks.
#pragma once

#include <stop_token>

#if defined(KEYWAY_EXPLORE)
#include "base/explore_hooks.h"
#endif

namespace keyway::detail {

// The destructor of a stop callback waits, inside the standard library, for the callback if another thread runs it. The
// explorer does not see that wait, so it lets no other thread run meanwhile.
inline void request_stop(std::stop_source& source) {
#if defined(KEYWAY_EXPLORE)
  explore::begin_uninterrupted();
#endif
  source.request_stop();
#if defined(KEYWAY_EXPLORE)
  explore::end_uninterrupted();
#endif
}

}  // namespace keyway::detail
