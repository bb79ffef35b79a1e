// How a run was started, in words that start it again for its dead letters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace keyway::cli {

// Of `keyway run`: every setting that has to do with how records are handled, wherever it came from, as a flag; then the
// sources and the command.
std::vector<std::string> run_words(const Invocation& run);

// Options of `keyway dead` that are the replaying run's. Those that it does not have hold as they were.
bool is_of_replay(std::string_view option);

// `run`: what run_words() said; empty: not known. `replay`: of `keyway dead`. A handler that it names replaces the run's.
std::vector<std::string> replay_words(const std::vector<std::string>& run, const Invocation& replay,
                                      const std::string& state_folder);

}  // namespace keyway::cli
