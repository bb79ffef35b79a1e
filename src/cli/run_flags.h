// From the settings of `keyway run` to what the engine is asked to do.
#pragma once

#include "cli/command.h"
#include "cli/common_flags.h"
#include "run/run_options.h"

namespace keyway::cli {

struct RunFlags {
  CommonFlags common;
  run::RunOptions options;
};

// Fails with the first value that is wrong, naming where it came from.
Result<RunFlags> run_flags(const Invocation& call);

}  // namespace keyway::cli
