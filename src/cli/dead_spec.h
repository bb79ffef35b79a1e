// How `keyway dead` is described.
#pragma once

#include "cli/command.h"

namespace keyway::cli {

CommandSpec dead_spec();

}  // namespace keyway::cli
