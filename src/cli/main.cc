#include "cli/console.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  keyway::cli::Console console = keyway::cli::process_console();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return static_cast<int>(keyway::cli::keyway_program().run(words, console));
}
