// The program `keyway`: its commands, and the way from a command line to one of them.
//
//   int main(int argc, char** argv) {
//     Console console = process_console();
//     return static_cast<int>(keyway_program().run({argv + 1, argv + argc}, console));
//   }
//
// Guarantees:
//   (1) Errors go to standard error as "keyway: what: where" and "  try: next step".
//   (2) A command line or configuration that is wrong ends with 2 before anything is done.
//   (3) Whatever a command throws ends with 125 and a message, never with a core dump.
//
// Thread safety: one thread at a time.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/exit_code.h"

namespace keyway::cli {

class Program {
 public:
  Program(std::string version, std::string purpose, std::vector<Command> commands)
      : version_(std::move(version)),
        purpose_(std::move(purpose)),
        commands_(std::move(commands)) {}

  const std::string& version() const { return version_; }
  const std::string& purpose() const { return purpose_; }
  std::span<const Command> commands() const { return commands_; }
  const Command* find(std::string_view name) const;

  // `words`: without the program's own name.
  ExitCode run(const std::vector<std::string>& words, Console& console) const;

  // The error of a name that no command has.
  Error unknown_command(const std::string& name) const;

 private:
  ExitCode dispatch(const std::vector<std::string>& words, Console& console) const;
  ExitCode run_command(const Command& command, const std::vector<std::string>& words,
                       Console& console) const;

  std::string version_;
  std::string purpose_;
  std::vector<Command> commands_;
};

// With every command there is.
Program keyway_program();

}  // namespace keyway::cli
