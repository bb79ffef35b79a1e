// What a run needs of its process before it begins.
#pragma once

#include <cstdint>
#include <string>

namespace keyway::jobs {

// Raises the limit of open files, as far as it may be: three for each process, and some for the
// rest.
void allow_descriptors(int jobs);

std::uint64_t random_seed();

// "6737a1b2-09f3": the time, and something random.
std::string new_run_id(std::uint64_t random);

}  // namespace keyway::jobs
