#include "cli/command.h"

#include <algorithm>
#include <cctype>

namespace keyway::cli {

std::string OptionSpec::environment_name() const {
  if (!configurable) return {};
  std::string upper = "KEYWAY_";
  for (const char letter_of_name : name) {
    upper += letter_of_name == '-'
                 ? '_'
                 : static_cast<char>(std::toupper(static_cast<unsigned char>(letter_of_name)));
  }
  return upper;
}

std::string OptionSpec::synopsis() const { return value.empty() ? flag() : flag() + " " + value; }

std::string OptionSpec::valid_example() const {
  if (!example.empty()) return example;
  if (!choices.empty()) return choices.front();
  return fallback.empty() ? value : fallback;
}

const OptionSpec* CommandSpec::find_option(std::string_view option) const {
  if (option == help_option().name) return &help_option();
  const auto found = std::ranges::find(options, option, &OptionSpec::name);
  return found == options.end() ? nullptr : &*found;
}

bool CommandSpec::takes_command() const {
  return !arguments.empty() && arguments.back().kind == ValueKind::kCommand;
}

std::string CommandSpec::synopsis() const {
  std::string line = "keyway " + name;
  if (!options.empty()) line += " [OPTION]...";
  for (const ArgumentSpec& argument : arguments) {
    std::string word = argument.name + (argument.repeats ? "..." : "");
    if (argument.kind == ValueKind::kCommand) word = "-- " + argument.name + " [ARGUMENT]...";
    line += argument.required ? " " + word : " [" + word + "]";
  }
  return line;
}

std::vector<std::string> paragraphs(std::string_view text) {
  std::vector<std::string> all;
  bool begins = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) {
      begins = true;
    } else if (begins) {
      all.emplace_back(line);
      begins = false;
    } else {
      all.back() += ' ';
      all.back() += line;
    }
  }
  return all;
}

const OptionSpec& help_option() {
  static const OptionSpec option{.letter = 'h', .name = "help", .help = "show this help"};
  return option;
}

}  // namespace keyway::cli
