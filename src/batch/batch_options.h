// What a batch is to do: the flags of `keyway batch`, parsed.
#pragma once

#include <chrono>
#include <string>

#include "jobs/backoff.h"
#include "jobs/halt.h"
#include "jobs/limits.h"
#include "jobs/run_progress.h"
#include "jobs/watch.h"

namespace keyway::batch {

using Millis = std::chrono::milliseconds;

// A batch is a run of jobs in groups.
using jobs::Ending;
using jobs::Limits;
using jobs::Progress;
using jobs::Summary;
using jobs::Watch;

enum class OutputMode { kGroup, kLine, kKeepOrder, kNone };

struct Options {
  std::string jobs_file;  // "-": standard input
  std::string name;       // of the run, for standard input with a state folder
  int jobs = 1;           // how many at once, in all groups together
  Limits limits;
  int retries = 3;  // after the first try
  jobs::Backoff backoff;
  Millis timeout{0};  // of one try; 0: none
  Millis grace{30'000};
  jobs::Halt halt;
  OutputMode output = OutputMode::kGroup;
  std::string state_dir;    // empty: "<jobs_file>.keyway"
  bool fresh = false;       // forget an earlier run
  std::string report_file;  // empty: none
};

}  // namespace keyway::batch
