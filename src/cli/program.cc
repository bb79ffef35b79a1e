#include "cli/program.h"

#include <exception>

#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/config_file.h"
#include "cli/help_text.h"
#include "cli/human_text.h"
#include "cli/nearest.h"

namespace keyway::cli {
namespace {

Result<ColorMode> color_mode(const CommandSpec& spec, const Settings& settings) {
  if (spec.find_option("color") == nullptr) return ColorMode::kAuto;
  const Result<std::string> choice = settings.choice("color");
  if (!choice) return choice.error();
  if (*choice == "always") return ColorMode::kAlways;
  return *choice == "never" ? ColorMode::kNever : ColorMode::kAuto;
}

ExitCode fail(const Console& console, const Error& error) {
  print_error(console, error);
  return exit_code(error.code);
}

}  // namespace

const Command* Program::find(std::string_view name) const {
  for (const Command& command : commands_) {
    if (command.spec.name == name) return &command;
  }
  return nullptr;
}

Error Program::unknown_command(const std::string& name) const {
  std::vector<std::string> names;
  names.reserve(commands_.size());
  for (const Command& command : commands_) names.push_back(command.spec.name);
  const auto near = nearest(name, names);
  return usage_error(fmt::format("unknown command \"{}\"", name),
                     near ? "keyway " + *near : "keyway --help");
}

ExitCode Program::run(const std::vector<std::string>& words, Console& console) const {
  ExitCode code = ExitCode::kOwnFailure;
  try {
    code = dispatch(words, console);
  } catch (const std::exception& error) {
    print_error(console, {ErrorCode::kShutdown, with_next_step(error.what(), "keyway --help")});
    return ExitCode::kOwnFailure;
  }
  if (const std::string failure = console.out_failure(); !failure.empty()) {
    print_error(console, {ErrorCode::kShutdown, with_next_step("standard output: " + failure,
                                                               "a place that can be written to")});
    if (code == ExitCode::kOk) return ExitCode::kResumable;
  }
  return code;
}

ExitCode Program::dispatch(const std::vector<std::string>& words, Console& console) const {
  const auto overview = [&](bool brief, bool is_terminal) {
    const Style style{wants_color(console, ColorMode::kAuto, is_terminal)};
    return overview_text(*this, console.text_columns(), style, brief);
  };
  if (words.empty()) {
    console.err(overview(/*brief=*/true, console.err_is_terminal));
    return ExitCode::kUsage;
  }
  const std::string& first = words.front();
  if (first == "--version") {
    console.out(fmt::format("keyway {}\n", version_));
    return ExitCode::kOk;
  }
  if (first == "--help" || first == "-h") {
    console.out(overview(/*brief=*/false, console.out_is_terminal));
    return ExitCode::kOk;
  }
  if (first.starts_with("-")) {
    const auto near = nearest(first, {"--version", "--help"});
    return fail(console, usage_error(fmt::format("unknown flag \"{}\"", first),
                                     near ? *near : "keyway COMMAND " + first));
  }
  const Command* const command = find(first);
  if (command == nullptr) return fail(console, unknown_command(first));
  return run_command(*command, {words.begin() + 1, words.end()}, console);
}

ExitCode Program::run_command(const Command& command, const std::vector<std::string>& words,
                              Console& console) const {
  const Result<ParsedArguments> parsed = parse_arguments(command.spec, words);
  if (!parsed) return fail(console, parsed.error());
  if (parsed->help) {
    const Style style{wants_color(console, ColorMode::kAuto, console.out_is_terminal)};
    console.out(help_text(command.spec, console.text_columns(), style));
    return ExitCode::kOk;
  }
  Result<Settings> settings = load_settings(command.spec, commands_, console);
  if (!settings) return fail(console, settings.error());
  for (const auto& [option, text] : parsed->options) {
    settings->set(option, {text, Source::kFlag, {}});
  }
  const Result<ColorMode> color = color_mode(command.spec, *settings);
  if (!color) return fail(console, color.error());
  return command.run(Invocation{*this, command.spec, console, *settings, parsed->arguments,
                                parsed->command, *color});
}

}  // namespace keyway::cli
