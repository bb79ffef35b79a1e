// What `keyway exec` says of the slots of a key.
#pragma once

#include <string>

#include "exec/exec.h"

namespace keyway::cli {

// "2 of 2 held by pid 811 (pg_dump, 4m), pid 902 (psql, 9s); 3 waiting in front"
std::string occupancy_text(const exec::Occupancy& occupancy, int limit);

// Why it was given up: what is wrong, and the next step.
Error full_error(const exec::Options& options, const exec::Occupancy& occupancy);

}  // namespace keyway::cli
