// How `keyway run` is described: its help, manual page, completions and settings.
#pragma once

#include "cli/command.h"

namespace keyway::cli {

CommandSpec run_spec();

}  // namespace keyway::cli
