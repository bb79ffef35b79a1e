#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/config_file.h"
#include "cli/human_text.h"
#include "cli/json_text.h"
#include "cli/program.h"

namespace keyway::cli {
namespace {

struct Row {
  std::string key, value, source;
};

std::vector<Row> rows_of(const CommandSpec& spec, const Settings& settings) {
  std::vector<Row> rows;
  for (const OptionSpec& option : spec.options) {
    if (!option.configurable) continue;
    const Setting* const setting = settings.find(option.name);
    rows.push_back({option.name, setting == nullptr ? "" : setting->text,
                    setting == nullptr ? "built-in" : describe_source(option, *setting)});
  }
  return rows;
}

std::string as_text(const std::string& command, const std::vector<Row>& rows) {
  std::size_t key_width = 0;
  std::size_t value_width = 0;
  for (const Row& row : rows) {
    key_width = std::max(key_width, row.key.size());
    value_width = std::max(value_width, row.value.size());
  }
  std::string text = fmt::format("[{}]\n", command);
  for (const Row& row : rows) {
    text += fmt::format("{:{}}  {:{}}  {}\n", row.key, key_width,
                        row.value.empty() ? "-" : printable(row.value), value_width, row.source);
  }
  return text;
}

JsonObject as_json(const std::vector<Row>& rows) {
  JsonObject object;
  for (const Row& row : rows) {
    JsonObject value;
    if (row.value.empty()) {
      value.add_null("value");
    } else {
      value.add("value", row.value);
    }
    object.add(row.key, value.add("source", row.source));
  }
  return object;
}

std::string name_of(const std::optional<std::filesystem::path>& file) {
  return file ? file->string() : "none";
}

ExitCode run(const Invocation& call) {
  const bool json = call.settings.is_on("json");
  JsonObject object;
  std::string text =
      fmt::format("project file  {}\nuser file     {}\n", name_of(find_project_file(call.console)),
                  name_of(find_user_file(call.console)));
  const std::string wanted = call.arguments.empty() ? "" : call.arguments.front();
  if (!wanted.empty() && call.program.find(wanted) == nullptr) {
    print_error(call.console, call.program.unknown_command(wanted));
    return ExitCode::kUsage;
  }
  for (const Command& command : call.program.commands()) {
    const CommandSpec& spec = command.spec;
    if (!spec.reads_configuration || (!wanted.empty() && spec.name != wanted)) continue;
    const auto settings = load_settings(spec, call.program.commands(), call.console);
    if (!settings) {
      print_error(call.console, settings.error());
      return exit_code(settings.error().code);
    }
    const std::vector<Row> rows = rows_of(spec, *settings);
    text += "\n" + as_text(spec.name, rows);
    object.add(spec.name, as_json(rows));
  }
  call.console.out(json ? object.text() + "\n" : text);
  return ExitCode::kOk;
}

}  // namespace

Command config_command() {
  return {.spec = {.name = "config",
                   .purpose = "show every setting that holds here, and where it comes from",
                   .description = R"(
Prints the settings that the commands would use in this folder if they were called without flags.
A file that is wrong is reported as the commands would report it.)",
                   .examples = {{"keyway config", "all settings, with the files they come from"},
                                {"KEYWAY_JOBS=8 keyway config batch --json",
                                 "those of one command, for a machine"}},
                   .arguments = {{.name = "COMMAND",
                                  .help = "only the settings of this command",
                                  .required = false}},
                   .options = {json_option("print one object on standard output")},
                   .exits = {ExitCode::kOk, ExitCode::kUsage},
                   .see_also = {"keyway-batch(1)"}},
          .run = run};
}

}  // namespace keyway::cli
