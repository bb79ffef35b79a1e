// The command line of one command, taken apart by its description.
//
//   Result<ParsedArguments> parsed = parse_arguments(spec, {"-j8", "jobs.jsonl"});
//
// The usual forms: -j8, -j 8, --jobs 8, --jobs=8, -qv, and -- before arguments that begin with a
// dash. Where a command is the only argument, it may do without --: its
// first word ends the options. Of an option given twice the last counts. Values are not checked here: see settings.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/command.h"
#include "keyway/error.h"

namespace keyway::cli {

struct ParsedArguments {
  std::map<std::string, std::string> options;  // a switch that is there has "true"
  std::vector<std::string> arguments;
  std::vector<std::string> command;  // of an argument that is a command to run
  bool help = false;
};

// Fails with a flag that is unknown or lacks its value, with too many arguments and, unless help
// was asked for, with too few.
Result<ParsedArguments> parse_arguments(const CommandSpec& spec,
                                        const std::vector<std::string>& words);

}  // namespace keyway::cli
