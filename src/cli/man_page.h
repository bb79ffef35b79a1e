// The manual: the same page in roff for man(1), and in Markdown for docs/.
#pragma once

#include <string>

#include "cli/command.h"

namespace keyway::cli {

// keyway-<command>(1). Standing output: no date, so that a build can be repeated.
std::string man_page(const CommandSpec& spec, const std::string& version);

// keyway(1), with all commands.
std::string overview_man_page(const Program& program);

std::string markdown_page(const CommandSpec& spec);

}  // namespace keyway::cli
