// When failed jobs stop a run.
//
// A number: when so many jobs have failed. A percentage: when at least this part of those that
// ended has failed, but not before kLeastEnded have ended, because one failure among the first two
// says little.
#pragma once

#include <cstdint>

#include "batch/batch_options.h"

namespace keyway::batch {

inline constexpr std::uint64_t kLeastEnded = 10;

bool halt_is_reached(const Halt& halt, std::uint64_t failed, std::uint64_t ended);

}  // namespace keyway::batch
