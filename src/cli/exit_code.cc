#include "cli/exit_code.h"

#include <algorithm>
#include <array>

namespace keyway::cli {
namespace {

constexpr std::array<ExitMeaning, 13> kMeanings = {{
    {ExitCode::kOk, "all succeeded"},
    {ExitCode::kSomeFailed, "finished, and some failed or are dead letters"},
    {ExitCode::kUsage, "the command line, a configuration file or a job is wrong"},
    {ExitCode::kResumable, "a source, sink, store or handler failed; the run can be resumed"},
    {ExitCode::kHalted, "halted by --halt or --on-dead halt"},
    {ExitCode::kState, "the state folder belongs to another input, or another run holds it"},
    {ExitCode::kNotAcquired, "the limit was not acquired"},
    {ExitCode::kTimedOut, "the command timed out"},
    {ExitCode::kOwnFailure, "keyway itself failed"},
    {ExitCode::kNotExecutable, "the command is not executable"},
    {ExitCode::kNotFound, "the command was not found"},
    {ExitCode::kInterrupted, "interrupted (SIGINT); the run can be resumed"},
    {ExitCode::kTerminated, "terminated (SIGTERM); the run can be resumed"},
}};

}  // namespace

std::span<const ExitMeaning> exit_meanings() { return kMeanings; }

std::string_view meaning(ExitCode code) {
  const auto* const row = std::ranges::find(kMeanings, code, &ExitMeaning::code);
  KEYWAY_CHECK(row != kMeanings.end(), "every exit code has a meaning");
  return row->meaning;
}

ExitCode exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ExitCode::kUsage;
    case ErrorCode::kRejected:
      return ExitCode::kNotAcquired;
    case ErrorCode::kTimeout:
    case ErrorCode::kExpired:
      return ExitCode::kTimedOut;
    case ErrorCode::kCancelled:
      return ExitCode::kInterrupted;
    case ErrorCode::kIo:
      return ExitCode::kResumable;
    case ErrorCode::kConflict:
      return ExitCode::kState;
    case ErrorCode::kShutdown:
    case ErrorCode::kWaitCycle:
    case ErrorCode::kNoThread:
    case ErrorCode::kResultTaken:
      return ExitCode::kOwnFailure;
  }
  return ExitCode::kOwnFailure;
}

ExitCode exit_code(const jobs::Summary& summary) {
  // What went wrong says more than that something did. A reader that has enough is no failure.
  if (summary.failure && summary.ending != jobs::Ending::kOutputClosed) {
    return exit_code(summary.failure->code);
  }
  switch (summary.ending) {
    case jobs::Ending::kFinished:
      return summary.failed == 0 ? ExitCode::kOk : ExitCode::kSomeFailed;
    case jobs::Ending::kHalted:
      return ExitCode::kHalted;
    case jobs::Ending::kInterrupted:
      return ExitCode::kInterrupted;
    case jobs::Ending::kTerminated:
      return ExitCode::kTerminated;
    case jobs::Ending::kStoreFailed:
    case jobs::Ending::kInputFailed:
    case jobs::Ending::kHandlerFailed:
    case jobs::Ending::kOutputClosed:
      return ExitCode::kResumable;
  }
  return ExitCode::kOwnFailure;
}

}  // namespace keyway::cli
