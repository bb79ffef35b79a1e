#include <fmt/format.h>

#include "cli/batch_flags.h"
#include "cli/batch_spec.h"
#include "cli/commands.h"

namespace keyway::cli {
namespace {

ExitCode run(const Invocation& call) {
  const Result<BatchFlags> flags = batch_flags(call);
  if (!flags) {
    print_error(call.console, flags.error(), call.color);
    return exit_code(flags.error().code);
  }
  return ExitCode::kOk;
}

}  // namespace

Command batch_command() { return {.spec = batch_spec(), .run = run}; }

}  // namespace keyway::cli
