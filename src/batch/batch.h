// `keyway batch`, without its flags: from Options to a Summary.
//
//   Result<Summary> summary = run_batch(options, {.progress = draw, .notice = say});
//
// It reads and checks the jobs, takes the state folder, runs what is not done yet on an event loop
// of the calling thread, and answers signals meanwhile: SIGINT, SIGTERM and SIGHUP stop the run
// step by step, SIGUSR1 has the running jobs named. SIGPIPE is ignored. Afterwards signals are as
// they were.
//
// Standard input has no place beside it for a state folder: it has one if the options give a name
// ("NAME.keyway" in the current directory) or a folder; otherwise nothing is kept, and nothing can
// be resumed.
//
// Thread safety: one run at a time in a process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "batch/batch_options.h"
#include "keyway/error.h"

namespace keyway::batch {

// An error: nothing was run. kInvalidArgument: a job or an option is wrong; kConflict: the state is
// of other jobs, or another run has it; kIo: a file could not be read or written. The messages are
// for people, and end with what to try; `keyway: ` is to be put before them.
Result<Summary> run_batch(const Options& options, const Watch& watch);

// What run_batch() would do, job by job; those that an earlier run has done are marked.
struct PlannedJob {
  std::uint64_t seq = 0;
  std::string id;
  std::string group;
  int limit = 1;  // of the group
  int weight = 1;
  std::string command;  // as one would type it into a shell
  bool is_done = false;
};
Result<void> plan_batch(const Options& options, const std::function<void(const PlannedJob&)>& show);

}  // namespace keyway::batch
