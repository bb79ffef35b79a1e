// Removes letters for good.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dead/selection.h"
#include "keyway/error.h"

namespace keyway::dead {

struct Discarded {
  std::size_t letters = 0;
  std::size_t left = 0;
  std::vector<std::string> unknown;  // ids that no letter has
};

// `folder`: of the run, which must not be running (kConflict); `file`: its letters.
Result<Discarded> discard(const std::string& folder, const std::string& file,
                          const Selection& selection);

}  // namespace keyway::dead
