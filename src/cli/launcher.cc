// The program `keyway` as it is called. It runs `keyway exec` itself and hands all else over to the
// program that has every command. That one loads shared libraries, which takes longer than most of
// what exec is asked to do; this one is linked statically and starts in half a millisecond.
#include <cerrno>
#include <filesystem>
#include <string_view>

#include <unistd.h>

#include "base/system_error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/program.h"

namespace {

using keyway::cli::Console;
using keyway::cli::ExitCode;

ExitCode hand_over(char** argv, const Console& console) {
  std::error_code failure;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failure);
  const auto path = (self.parent_path() / KEYWAY_ALL_COMMANDS).lexically_normal();
  if (!failure) execv(path.c_str(), argv);
  print_error(console,
              {keyway::ErrorCode::kIo,
               keyway::cli::with_next_step(
                   failure ? "cannot find itself: " + failure.message()
                           : "cannot run " + path.string() + ": " + keyway::errno_text(errno),
                   "install keyway anew; it is more than this one file")});
  return ExitCode::kOwnFailure;
}

}  // namespace

int main(int argc, char** argv) {
  Console console = keyway::cli::process_console();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (words.empty() || words.front() != "exec") return static_cast<int>(hand_over(argv, console));
  const keyway::cli::Program program("", "", {keyway::cli::exec_command()});
  return static_cast<int>(program.run(words, console));
}
