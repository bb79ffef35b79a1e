// Where a run stands, and how it ended: plain numbers, for whoever prints them. What `keyway batch`
// calls jobs, groups and failed, `keyway run` calls records, keys and dead.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/histogram.h"
#include "keyway/error.h"
#include "keyway/scheduler.h"

namespace keyway::jobs {

struct Progress {
  std::string name;                    // of the input
  std::optional<std::uint64_t> total;  // unknown while standard input goes on
  bool total_is_estimate = false;
  std::uint64_t ended = 0;  // ok + failed
  std::uint64_t ok = 0;
  std::uint64_t retries = 0;  // tries that failed and are or will be repeated
  std::uint64_t failed = 0;
  int running = 0;
  int jobs = 0;                      // how many may run at once
  std::uint64_t groups = 0;          // that have had a job
  std::uint64_t groups_waiting = 0;  // that have one which waits
  std::chrono::milliseconds elapsed{0};
};

enum class Ending {
  kFinished,
  kHalted,         // by --halt
  kInterrupted,    // by SIGINT
  kTerminated,     // by SIGTERM or SIGHUP
  kStoreFailed,    // what is to be kept could not be written
  kInputFailed,    // the input was wrong, or could not be read
  kHandlerFailed,  // no record can be handled any more
  kOutputClosed,   // nobody reads stdout any more; said to nobody
};

struct Quantiles {
  std::chrono::microseconds p50{0}, p95{0}, p99{0}, max{0};
};
Quantiles quantiles_of(const Histogram& histogram);

std::chrono::milliseconds in_milliseconds(Duration duration);

struct Summary {
  Ending ending = Ending::kFinished;
  std::optional<Error> failure;  // why, if something failed: to be printed as any error
  std::uint64_t jobs = 0;        // that ended in this run
  std::uint64_t groups = 0;
  std::uint64_t ok = 0;
  std::uint64_t ok_after_retry = 0;
  std::uint64_t failed = 0;
  std::uint64_t timed_out = 0;     // of the failed
  std::uint64_t not_run = 0;       // left over, because the run was halted or stopped
  std::uint64_t left_out = 0;      // records that were not wanted
  std::uint64_t duplicates = 0;    // that were known as handled
  std::uint64_t resumed_past = 0;  // ended in an earlier run, and not run again
  std::chrono::milliseconds elapsed{0};
  Quantiles running;  // of the tries
  Quantiles waiting;
  // The group that kept the run from being shorter, if one did.
  std::string bound_by;
  std::uint64_t bound_jobs = 0;
  std::chrono::milliseconds bound_time{0};  // during which it was at its limit
  std::string joblog_file;
  std::string dead_file;    // empty: there are no dead letters in a file
  std::string report_file;  // empty: none
};

}  // namespace keyway::jobs
