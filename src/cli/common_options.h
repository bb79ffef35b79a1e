// The options that several commands share, described once. Each command puts them in its own order.
#pragma once

#include <vector>

#include "cli/command.h"

namespace keyway::cli {

std::vector<OptionSpec> limit_options();  // --jobs, --limit, --limits
// --retries, --backoff, --timeout, --grace, --halt; `item`: a job or a record.
std::vector<OptionSpec> failure_options(const std::string& item);
std::vector<OptionSpec> display_options();  // --progress, -q, -v, --json, --color
// --state, --name, --fresh; `input`: how help names what is read.
std::vector<OptionSpec> state_options(const std::string& input);
// --report, --dry-run
std::vector<OptionSpec> insight_options(const std::string& item, const std::string& group);

void append(std::vector<OptionSpec>& options, std::vector<OptionSpec> more);

// How many processors this process may use.
int usable_processors();

// The setting `color`, for commands that print in colour.
OptionSpec color_option();
OptionSpec json_option(std::string help);

}  // namespace keyway::cli
