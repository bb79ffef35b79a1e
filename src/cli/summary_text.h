// How a run ended: for people, and for machines. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/console.h"
#include "cli/run_words.h"
#include "jobs/run_progress.h"

namespace keyway::cli {

// A job that failed for good, as the summary names it.
struct FailedJob {
  std::string id;
  std::optional<int> exit = 0;  // none: a worker or a server failed
  int signal = 0;
  bool timed_out = false;
  bool refused = false;  // its group's queue was full
};

// "exit 3", "SIGKILL", "timed out", "queue full".
std::string how_it_failed(const FailedJob& job);

// Several lines. `failed`: the first few of those that failed.
std::string summary_text(const jobs::Summary& summary, std::span<const FailedJob> failed,
                         const Style& style, const RunWords& words = kBatchWords);

// One object, without a newline.
std::string summary_json(const jobs::Summary& summary, std::span<const FailedJob> failed,
                         const RunWords& words = kBatchWords);

}  // namespace keyway::cli
