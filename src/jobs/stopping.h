// How a run is stopped, step by step, and what the next signal means.
#pragma once

#include <csignal>
#include <optional>
#include <string_view>

#include "jobs/run_progress.h"

namespace keyway::jobs {

// Nothing new begins and what runs goes on; it gets SIGTERM; it gets SIGKILL.
enum class Stop { kNot, kDrain, kTerminate, kKill };

struct StopStep {
  Ending reason;
  Stop step;
  std::string_view notice;
};

// SIGINT, SIGTERM: the next step. SIGHUP: the first, if it has not been made.
inline std::optional<StopStep> step_after(Stop now, int signal) {
  const Ending reason = signal == SIGINT ? Ending::kInterrupted : Ending::kTerminated;
  if (now == Stop::kNot) {
    return StopStep{
        reason, Stop::kDrain,
        "stopping: nothing new begins; what runs has until the grace is over (again: end it)"};
  }
  if (signal == SIGHUP) return {};
  if (now == Stop::kDrain) {
    return StopStep{reason, Stop::kTerminate, "ending what still runs by SIGTERM (again: SIGKILL)"};
  }
  return StopStep{reason, Stop::kKill, "killing what still runs"};
}

}  // namespace keyway::jobs
