// A manual page as a list of parts, before it has a format.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace keyway::cli {

struct PageItem {
  std::string term;  // what is typed; empty: a paragraph of its own
  std::vector<std::string> paragraphs;
};

struct PageSection {
  std::string title;
  bool is_sub = false;  // belongs to the section before it
  std::vector<PageItem> items;
  std::string sample;  // shown as it is, last
};

// Everything but name and synopsis, which each format writes in its own way.
std::vector<PageSection> page_sections(const CommandSpec& spec);
std::vector<PageSection> overview_sections(const Program& program);

}  // namespace keyway::cli
