// Completion scripts, for commands, options and their values.
//
//   source <(keyway completion bash)
//
// Each script stands alone: it asks `keyway` nothing when a key is pressed.
#pragma once

#include <string>

#include "cli/program.h"

namespace keyway::cli {

std::string bash_completion(const Program& program);
std::string zsh_completion(const Program& program);
std::string fish_completion(const Program& program);

}  // namespace keyway::cli
