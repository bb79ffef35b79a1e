#include "cli/commands.h"
#include "cli/program.h"
#include "keyway/version.h"

namespace keyway::cli {

Program keyway_program() {
  std::vector<Command> commands;
  commands.push_back(run_command());
  commands.push_back(batch_command());
  commands.push_back(exec_command());
  commands.push_back(dead_command());
  commands.push_back(config_command());
  commands.push_back(completion_command());
  commands.push_back(man_command());
  commands.push_back(help_command());

  // Where a command is an argument, these are the names there are.
  std::vector<std::string> names;
  std::vector<std::string> with_settings;
  for (const Command& command : commands) {
    names.push_back(command.spec.name);
    if (command.spec.reads_configuration) with_settings.push_back(command.spec.name);
  }
  for (Command& command : commands) {
    for (ArgumentSpec& argument : command.spec.arguments) {
      if (argument.name != "COMMAND" || argument.kind == ValueKind::kCommand) continue;
      argument.choices = command.spec.name == "config" ? with_settings : names;
    }
  }
  return {KEYWAY_VERSION_STRING,
          "keyed concurrency: say what may run together, in what order, and never lose a task",
          std::move(commands)};
}

}  // namespace keyway::cli
