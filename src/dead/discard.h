// Removes letters for good.
#pragma once

#include <cstddef>
#include <string>

#include "dead/selection.h"
#include "keyway/error.h"

namespace keyway::dead {

struct Discarded {
  std::size_t letters = 0;
  std::size_t left = 0;
};

// `folder`: of the run, which must not be running (kConflict); empty: of none. `file`: its letters. An id that no letter
// has is kInvalidArgument; then none is removed.
Result<Discarded> discard(const std::string& folder, const std::string& file,
                          const Selection& selection);

}  // namespace keyway::dead
