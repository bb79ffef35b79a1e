// Who watches a run; each may be empty. All are called on the thread that runs it.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "jobs/run_progress.h"
#include "report/attempt.h"

namespace keyway::jobs {

struct Watch {
  std::chrono::milliseconds every{100};           // between two calls of `progress`
  std::function<void(const Progress&)> progress;  // also once at the beginning and at the end
  std::function<void(std::string_view)>
      notice;                           // something to say on stderr, without a newline at its end
  std::function<void()> before_output;  // output is about to be written
  std::function<void(const LoggedAttempt&)>
      attempt_ended;  // every line of the joblog, as it is written
};

}  // namespace keyway::jobs
