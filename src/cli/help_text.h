// Help as it is printed: examples first, then usage and options.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/console.h"

namespace keyway::cli {

std::string help_text(const CommandSpec& spec, int columns, const Style& style);

// All commands, in a line each. `brief`: only what somebody needs who typed nothing.
std::string overview_text(const Program& program, int columns, const Style& style, bool brief);

// The help of an option with its choices and its built-in value, as every page shows it.
std::string full_help(const OptionSpec& option);

// The headings under which `spec` has options, in the order they first appear, --help last.
struct OptionGroup {
  std::string title;
  std::vector<const OptionSpec*> options;
};
std::vector<OptionGroup> grouped_options(const CommandSpec& spec);

// Without the backquotes.
std::string plain(std::string_view text);

}  // namespace keyway::cli
