// From the settings of `keyway batch` to what the engine is asked to do.
#pragma once

#include <string_view>

#include "batch/batch_options.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "keyway/error.h"

namespace keyway::cli {

struct BatchFlags {
  CommonFlags common;
  batch::Options options;
};

// "group", "line", "keep-order", "none".
Result<batch::OutputMode> parse_output(std::string_view text);

// Fails with the first value that is wrong, naming where it came from.
Result<BatchFlags> batch_flags(const Invocation& call);

}  // namespace keyway::cli
