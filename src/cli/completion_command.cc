#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/nearest.h"

namespace keyway::cli {
namespace {

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

ExitCode run(const Invocation& call) {
  const std::string& shell = call.arguments.front();
  if (shell == "bash") {
    call.console.out(bash_completion(call.program));
  } else if (shell == "zsh") {
    call.console.out(zsh_completion(call.program));
  } else if (shell == "fish") {
    call.console.out(fish_completion(call.program));
  } else {
    const std::string near = nearest(shell, kShells).value_or("bash");
    print_error(call.console,
                usage_error(fmt::format("completion \"{}\": must be bash, zsh or fish", shell),
                            "keyway completion " + near));
    return ExitCode::kUsage;
  }
  return ExitCode::kOk;
}

}  // namespace

Command completion_command() {
  return {
      .spec = {.name = "completion",
               .purpose = "print a completion script for a shell",
               .description = R"(
An installed Keyway brings these scripts along, and the shell finds them by itself. This is for
the others.)",
               .examples = {{"source <(keyway completion bash)", "in ~/.bashrc"},
                            {"source <(keyway completion zsh)", "in ~/.zshrc, after compinit"},
                            {"keyway completion fish | source", "in ~/.config/fish/config.fish"}},
               .arguments = {{.name = "SHELL",
                              .kind = ValueKind::kChoice,
                              .help = "bash, zsh or fish",
                              .choices = kShells}},
               .exits = {ExitCode::kOk, ExitCode::kUsage}},
      .run = run};
}

}  // namespace keyway::cli
