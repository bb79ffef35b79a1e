// The exit codes of every command, in one table: scripts rely on them.
//
//   return exit_code(result.error().code);      // a failure, as the shell sees it
//   for (const ExitMeaning& row : exit_meanings()) ...   // for man pages
#pragma once

#include <span>
#include <string_view>

#include "jobs/run_progress.h"
#include "keyway/error.h"

namespace keyway::cli {

enum class ExitCode {
  kOk = 0,
  kSomeFailed = 1,
  kUsage = 2,
  kResumable = 3,
  kHalted = 4,
  kState = 5,
  kNotAcquired = 75,
  kTimedOut = 124,
  kOwnFailure = 125,
  kNotExecutable = 126,
  kNotFound = 127,
  kInterrupted = 130,
  kTerminated = 143,
};

struct ExitMeaning {
  ExitCode code;
  std::string_view meaning;
};

// Every code there is, in ascending order.
std::span<const ExitMeaning> exit_meanings();
std::string_view meaning(ExitCode code);

ExitCode exit_code(ErrorCode code);
ExitCode exit_code(const jobs::Summary& summary);

}  // namespace keyway::cli
