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

std::string CommandSpec::synopsis() const {
  std::string line = "keyway " + name;
  if (!options.empty()) line += " [OPTION]...";
  for (const ArgumentSpec& argument : arguments) {
    line += argument.required ? " " + argument.name : " [" + argument.name + "]";
  }
  return line;
}

const OptionSpec& help_option() {
  static const OptionSpec option{.letter = 'h', .name = "help", .help = "show this help"};
  return option;
}

}  // namespace keyway::cli
