// The commands there are; each is made in a file of its own name.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace keyway::cli {

Command run_command();
Command batch_command();
Command exec_command();
Command dead_command();
Command config_command();
Command completion_command();
Command man_command();
Command help_command();

}  // namespace keyway::cli
