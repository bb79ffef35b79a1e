// Whose letters `keyway dead` is about.
#pragma once

#include <optional>
#include <string>

#include "keyway/error.h"
#include "run/command_file.h"

namespace keyway::cli {

struct DeadTarget {
  std::string folder;                       // of the run; empty: there is only a file of letters
  std::string file;                         // of letters; need not be there
  std::optional<run::CommandFile> command;  // how the run was started
};

// `place`: a state folder, the source whose state folder stands beside it, or a file of letters.
Result<DeadTarget> find_dead_target(const std::string& place);

}  // namespace keyway::cli
