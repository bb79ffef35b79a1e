#include "cli/arguments.h"

#include <algorithm>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "cli/nearest.h"

namespace keyway::cli {
namespace {

std::string help_of(const CommandSpec& spec) { return fmt::format("keyway {} --help", spec.name); }

Error unknown_flag(const CommandSpec& spec, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> flags = {help_option().flag()};
  for (const OptionSpec& option : spec.options) flags.push_back(option.flag());
  std::string next = help_of(spec);
  if (const auto near = nearest(flag, flags)) {
    next = spec.find_option(std::string_view(*near).substr(2))->synopsis();
  }
  return usage_error(fmt::format("unknown flag \"{}\"", flag), next);
}

Error needs_value(const OptionSpec& option) {
  return usage_error(fmt::format("{} needs a value", option.flag()),
                     fmt::format("{} {}", option.flag(), option.valid_example()));
}

std::string cli11_names(const OptionSpec& option) {
  return option.letter == 0 ? option.flag() : fmt::format("-{},{}", option.letter, option.flag());
}

// CLI11 would take the next word for the value of "--name=".
const OptionSpec* option_with_empty_value(const CommandSpec& spec,
                                          const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const OptionSpec* const option = spec.find_option(word.substr(2, word.size() - 3));
    if (option != nullptr && !option->value.empty()) return option;
  }
  return nullptr;
}

// How many words come before the command that is to be run.
std::size_t words_before_command(const CommandSpec& spec, const std::vector<std::string>& words) {
  if (spec.arguments.size() > 1) {
    return static_cast<std::size_t>(std::ranges::find(words, "--") - words.begin());
  }
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "--" || word == "-" || !word.starts_with('-')) return at;
    const OptionSpec* option = nullptr;
    if (word.starts_with("--")) {
      option = spec.find_option(std::string_view(word).substr(2));  // none: it has a "="
    } else {
      // A value may follow the letter at once: then this word has both.
      for (std::size_t i = 1; i < word.size() && option == nullptr; ++i) {
        const auto found = std::ranges::find(spec.options, word[i], &OptionSpec::letter);
        if (found == spec.options.end() || found->value.empty()) continue;
        if (i + 1 < word.size()) break;
        option = &*found;
      }
    }
    if (option != nullptr && !option->value.empty()) ++at;
  }
  return words.size();
}

Result<void> check_arguments(const CommandSpec& spec, const ParsedArguments& parsed) {
  const std::size_t count = spec.arguments.size() - (spec.takes_command() ? 1 : 0);
  const bool repeats = count > 0 && spec.arguments[count - 1].repeats;
  const std::vector<std::string>& given = parsed.arguments;
  if (given.size() > count && !repeats) {
    return usage_error(fmt::format("{}: one argument too many: \"{}\"", spec.name, given[count]),
                       spec.synopsis());
  }
  for (std::size_t at = given.size(); at < spec.arguments.size(); ++at) {
    const bool is_given = at >= count && !parsed.command.empty();
    if (!spec.arguments[at].required || is_given) continue;
    return usage_error(fmt::format("{}: {} is missing", spec.name, spec.arguments[at].name),
                       spec.examples.empty() ? spec.synopsis() : spec.examples.front().command);
  }
  return {};
}

}  // namespace

Result<ParsedArguments> parse_arguments(const CommandSpec& spec,
                                        const std::vector<std::string>& all_words) {
  std::vector<std::string> words = all_words;
  std::vector<std::string> command;
  if (spec.takes_command()) {
    const std::size_t before = std::min(words_before_command(spec, words), words.size());
    command.assign(words.begin() + static_cast<std::ptrdiff_t>(before), words.end());
    words.resize(before);
    if (!command.empty() && command.front() == "--") command.erase(command.begin());
  }
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<const OptionSpec*> options = {&help_option()};
  for (const OptionSpec& option : spec.options) options.push_back(&option);
  std::vector<CLI::Option*> parsers;
  for (const OptionSpec* const option : options) {
    CLI::Option* const parser = option->value.empty()
                                    ? app.add_flag(cli11_names(*option))
                                    : app.add_option(cli11_names(*option))->expected(1);
    parsers.push_back(parser->take_last());
  }
  std::vector<std::string> arguments;
  app.add_option("arguments", arguments);

  if (const OptionSpec* const empty = option_with_empty_value(spec, words)) {
    return needs_value(*empty);
  }
  try {
    // CLI11 takes the words from the back.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ArgumentMismatch&) {
    // Only the last word can be an option that got nothing.
    const std::string& last = words.back();
    for (const OptionSpec* const option : options) {
      const bool is_letter = !last.starts_with("--") && last.back() == option->letter;
      if (last == option->flag() || is_letter) return needs_value(*option);
    }
    return usage_error(fmt::format("\"{}\" needs a value", last), help_of(spec));
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what(), help_of(spec));
  }

  ParsedArguments parsed;
  for (std::size_t at = 0; at < options.size(); ++at) {
    if (parsers[at]->count() == 0) continue;
    const std::string text = parsers[at]->results().back();
    if (options[at]->value.empty() && text != "true") {
      return usage_error(fmt::format("{} takes no value", options[at]->flag()),
                         options[at]->flag());
    }
    parsed.options[options[at]->name] = text;
  }
  parsed.help = parsed.options.erase(help_option().name) > 0;
  parsed.arguments = std::move(arguments);
  parsed.command = std::move(command);
  if (parsed.help) return parsed;
  // Before the arguments: the value of an unknown flag looks like one.
  for (const std::string& word : app.remaining()) {
    if (word != "--") return unknown_flag(spec, word);
  }
  if (auto checked = check_arguments(spec, parsed); !checked) return checked.error();
  return parsed;
}

}  // namespace keyway::cli
