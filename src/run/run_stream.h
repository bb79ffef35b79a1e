// `keyway run`, without its flags: from RunOptions to a Summary.
//
//   Result<jobs::Summary> summary = run_stream(options, {.progress = draw, .notice = say});
//
// It takes the state folder, makes source, handler and stores, and runs a Pipeline on an event loop of the calling
// thread. Meanwhile it answers signals: SIGINT, SIGTERM and SIGHUP stop the run step by step, SIGUSR1 has what runs
// named. SIGPIPE is ignored. Afterwards signals are as they were.
//
// The state folder:
//   lock           see jobs::StateFolder
//   checkpoint     see FileSource: what is done. This alone decides what a later run does
//   joblog.jsonl   see jobs::JobLog. Written before each commit, not before each record is done: after a crash it may
//                  lack what is handled again
//   dead.jsonl     see dead_letter_file()
//   command.json   see CommandFile: what `keyway dead replay` starts again
//
// Thread safety: one run at a time in a process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "jobs/run_progress.h"
#include "jobs/watch.h"
#include "keyway/error.h"
#include "report/stream_sample.h"
#include "run/run_options.h"

namespace keyway::run {

struct Watch : jobs::Watch {
  std::function<void(const StreamSample&)> sample;  // as often as `progress`
};

// An error: nothing was handled. kInvalidArgument: an option is wrong; kConflict: the state is of another source, key or
// order, or another run has it; kIo: a file could not be read or written. The messages are for people, and end with what
// to try; `keyway: ` is to be put before them.
Result<jobs::Summary> run_stream(const RunOptions& options, const Watch& watch);

// Where the state of a run is kept; empty: nowhere, because standard input has no name.
std::string state_folder_of(const RunOptions& options);

// What run_stream() would handle, record by record; what an earlier run has done is left out.
struct PlannedRecord {
  std::string id;
  std::optional<std::string_view> key;
  std::optional<std::string_view> group;
  std::string_view defect;  // not empty: it would become a dead letter
};
struct Plan {
  std::uint64_t records = 0;
  std::uint64_t done = 0;  // by an earlier run
};
Result<Plan> plan_stream(const RunOptions& options,
                         const std::function<void(const PlannedRecord&)>& show);

}  // namespace keyway::run
