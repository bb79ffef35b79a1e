// The options that several commands share, described once. Each command puts them in its own order.
#pragma once

#include <vector>

#include "cli/command.h"

namespace keyway::cli {

std::vector<OptionSpec> limit_options();    // --jobs, --limit, --limits
std::vector<OptionSpec> failure_options();  // --retries, --backoff, --timeout, --grace, --halt
std::vector<OptionSpec> display_options();  // --progress, -q, -v, --json, --color
std::vector<OptionSpec> state_options();    // --state, --name, --fresh

// How many processors this process may use.
int usable_processors();

// The setting `color`, for commands that print in colour.
OptionSpec color_option();
OptionSpec json_option(std::string help);

}  // namespace keyway::cli
