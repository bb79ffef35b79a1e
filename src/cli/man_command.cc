#include "cli/commands.h"
#include "cli/man_page.h"
#include "cli/program.h"

namespace keyway::cli {
namespace {

ExitCode run(const Invocation& call) {
  const bool markdown = call.settings.is_on("markdown");
  if (call.arguments.empty() && !markdown) {
    call.console.out(overview_man_page(call.program));
    return ExitCode::kOk;
  }
  if (call.arguments.empty()) {
    print_error(call.console, usage_error("--markdown is for the page of one command",
                                          "keyway man batch --markdown"));
    return ExitCode::kUsage;
  }
  const Command* const command = call.program.find(call.arguments.front());
  if (command == nullptr) {
    print_error(call.console, call.program.unknown_command(call.arguments.front()));
    return ExitCode::kUsage;
  }
  call.console.out(markdown ? markdown_page(command->spec)
                            : man_page(command->spec, call.program.version()));
  return ExitCode::kOk;
}

}  // namespace

Command man_command() {
  return {.spec = {.name = "man",
                   .purpose = "print the manual page of keyway, or of a command",
                   .description = R"(
The page is in the format of man(1). An installed Keyway has its pages where `man keyway-batch`
finds them.)",
                   .examples = {{"keyway man batch | man -l -", "read a page"},
                                {"keyway man batch --markdown", "the same page, for a website"}},
                   .arguments = {{.name = "COMMAND",
                                  .help = "the command; without it, the page of keyway itself",
                                  .required = false}},
                   .options = {{.name = "markdown", .help = "print Markdown instead"}},
                   .exits = {ExitCode::kOk, ExitCode::kUsage}},
          .run = run};
}

}  // namespace keyway::cli
