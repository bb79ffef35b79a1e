#include "cli/help_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/human_text.h"
#include "cli/program.h"

namespace keyway::cli {
namespace {

constexpr int kLeft = 2;          // the indent of everything below a heading
constexpr int kLongestFlag = 26;  // longer ones have their help in the next line

std::string spaces(int count) { return std::string(static_cast<std::size_t>(count), ' '); }

// "  left     what it is, wrapped": the left part in a column of `width`.
std::string row(const std::string& left, int width, const std::string& right, int columns,
                const Style& style) {
  const int indent = kLeft + width + 2;
  std::string line = spaces(kLeft) + style.bold(left);
  const int used = display_width(left);
  line += used > width ? "\n" + spaces(indent) : spaces(width - used + 2);
  return line + wrapped(plain(right), columns, indent) + "\n";
}

std::string flag_column(const OptionSpec& option) {
  const std::string letter = option.letter == 0 ? "    " : fmt::format("-{}, ", option.letter);
  return letter + option.synopsis();
}

std::string heading(const std::string& title, const Style& style) {
  return "\n" + style.bold(title) + "\n";
}

std::string paragraph(const std::string& text, int columns) {
  return wrapped(plain(text), columns, 0) + "\n";
}

}  // namespace

std::string plain(std::string_view text) {
  std::string without(text);
  std::erase(without, '`');
  return without;
}

std::string full_help(const OptionSpec& option) {
  std::string help = option.help;
  if (option.kind == ValueKind::kChoice) {
    for (std::size_t at = 0; at < option.choices.size(); ++at) {
      const bool last = at + 1 == option.choices.size();
      help += (at == 0 ? ": " : last ? " or " : ", ") + option.choices[at];
    }
  }
  const std::string& standard =
      option.fallback_text.empty() ? option.fallback : option.fallback_text;
  if (!standard.empty()) help += fmt::format(" (default {})", standard);
  return help;
}

std::vector<OptionGroup> grouped_options(const CommandSpec& spec) {
  std::vector<OptionGroup> groups;
  for (const OptionSpec& option : spec.options) {
    const std::string title = option.section.empty() ? "Options" : option.section;
    auto found = std::ranges::find(groups, title, &OptionGroup::title);
    if (found == groups.end()) found = groups.insert(groups.end(), {title, {}});
    found->options.push_back(&option);
  }
  groups.push_back({groups.empty() ? "Options" : "Help", {&help_option()}});
  return groups;
}

std::string help_text(const CommandSpec& spec, int columns, const Style& style) {
  std::string text = paragraph(fmt::format("keyway {}: {}", spec.name, spec.purpose), columns);
  if (!spec.examples.empty()) text += heading("Examples", style);
  for (const Example& example : spec.examples) {
    text += fmt::format("{}{}\n", spaces(kLeft), style.bold(example.command));
    text += spaces(6) + style.dim(wrapped(plain(example.what), columns, 6)) + "\n";
  }
  text += heading("Usage", style) + spaces(kLeft) + spec.synopsis() + "\n";
  for (const ArgumentSpec& argument : spec.arguments) {
    text += row(argument.name, 8, argument.help, columns, style);
  }
  const std::vector<OptionGroup> groups = grouped_options(spec);
  int width = 0;
  for (const OptionGroup& group : groups) {
    for (const OptionSpec* const option : group.options) {
      const int used = display_width(flag_column(*option));
      if (used <= kLongestFlag) width = std::max(width, used);
    }
  }
  for (const OptionGroup& group : groups) {
    text += heading(group.title, style);
    for (const OptionSpec* const option : group.options) {
      text += row(flag_column(*option), width, full_help(*option), columns, style);
    }
  }
  if (spec.reads_configuration) {
    text += "\n" + paragraph(
                       "Most options can also be set in the environment (`KEYWAY_JOBS=8`) and in "
                       "`keyway.toml` (`jobs = 8`): `keyway config` shows what holds, and why.",
                       columns);
  }
  text += fmt::format("\nMore: keyway man {} | man -l -\n", spec.name);
  return text;
}

std::string overview_text(const Program& program, int columns, const Style& style, bool brief) {
  std::string text = paragraph("keyway: " + program.purpose(), columns);
  if (!brief) {
    text += heading("Examples", style);
    for (const Command& command : program.commands()) {
      if (command.spec.examples.empty()) continue;
      text += spaces(kLeft) + style.bold(command.spec.examples.front().command) + "\n";
    }
  }
  text += heading("Usage", style) + spaces(kLeft) + "keyway COMMAND [OPTION]... [ARGUMENT]...\n";
  text += heading("Commands", style);
  int width = 0;
  for (const Command& command : program.commands()) {
    width = std::max(width, display_width(command.spec.name));
  }
  for (const Command& command : program.commands()) {
    text += row(command.spec.name, width, command.spec.purpose, columns, style);
  }
  if (!brief) {
    text += heading("Options", style);
    text += row("-h, --help", 13, "show this help", columns, style);
    text += row("    --version", 13, "show the version", columns, style);
  }
  return text + "\nMore: keyway COMMAND --help\n";
}

}  // namespace keyway::cli
