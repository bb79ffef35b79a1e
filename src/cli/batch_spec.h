// What `keyway batch` is: its description, of which help, man page and completions are made.
#pragma once

#include "cli/command.h"

namespace keyway::cli {

CommandSpec batch_spec();

}  // namespace keyway::cli
