#include "cli/commands.h"
#include "cli/help_text.h"
#include "cli/program.h"

namespace keyway::cli {
namespace {

ExitCode run(const Invocation& call) {
  const Style style{wants_color(call.console, ColorMode::kAuto, call.console.out_is_terminal)};
  const int columns = call.console.text_columns();
  if (call.arguments.empty()) {
    call.console.out(overview_text(call.program, columns, style, /*brief=*/false));
    return ExitCode::kOk;
  }
  const Command* const command = call.program.find(call.arguments.front());
  if (command == nullptr) {
    print_error(call.console, call.program.unknown_command(call.arguments.front()));
    return ExitCode::kUsage;
  }
  call.console.out(help_text(command->spec, columns, style));
  return ExitCode::kOk;
}

}  // namespace

Command help_command() {
  return {.spec = {.name = "help",
                   .purpose = "show help for a command",
                   .examples = {{"keyway help batch", "the same as keyway batch --help"}},
                   .arguments = {{.name = "COMMAND",
                                  .help = "the command; without it, all commands in a line each",
                                  .required = false}},
                   .exits = {ExitCode::kOk, ExitCode::kUsage}},
          .run = run};
}

}  // namespace keyway::cli
