// What a run leaves behind so that a later one can go on: the state folder.
//
//   lock           see jobs::StateFolder
//   joblog.jsonl   what was tried, and how it ended; see jobs::JobLog
//   fingerprint    16 bytes "keyway-batch-v1\n", then 8 bytes for each job's line, in order
//
// What may change between two runs: anything about jobs that are not done. Lines may be added at
// the end, and a line whose job failed may be corrected. If the line of a job that is done is
// another one now (it was changed, or lines were put in or taken out before it), the numbers in the
// joblog mean other jobs, and the folder is refused.
//
// Done is what ended ok. A run that resumes repeats what failed, was cancelled or never ran.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "batch/batch_options.h"
#include "jobs/job_log.h"
#include "jobs/state_folder.h"
#include "keyway/error.h"

namespace keyway::batch {

class RunState {
 public:
  // Where the state of a run is kept; empty: nowhere, because standard input has no name.
  static std::string folder_of(const Options& options);

  // Takes the folder for this run, and makes it if there is none. kConflict: another run has it, or
  // it is not of a batch. With `fresh`, what an earlier run left is forgotten.
  static Result<RunState> open(const std::string& folder, bool fresh);

  // Only looks: nothing is taken, made or changed, and log() is not there. No folder is an empty
  // one.
  static Result<RunState> peek(const std::string& folder);

  // Holds the jobs of a file against those of the earlier run, and remembers them for a later one.
  // kConflict: a job that is done is another one now; `name` is the file's.
  Result<void> match(const std::string& name, const std::vector<std::uint64_t>& fingerprints);
  // The same, but remembers nothing.
  Result<void> compare(const std::string& name,
                       const std::vector<std::uint64_t>& fingerprints) const;
  // The same, job by job as they are read.
  Result<void> match_next(const std::string& name, std::uint64_t seq, std::uint64_t fingerprint);

  bool is_done(std::uint64_t seq) const { return seq < done_.size() && done_[seq]; }
  std::uint64_t done() const { return done_count_; }
  bool has_earlier_run() const { return has_earlier_run_; }

  jobs::JobLog& log() { return *log_; }
  std::string log_path() const { return folder_ + "/joblog.jsonl"; }

 private:
  explicit RunState(std::string folder) : folder_(std::move(folder)) {}
  Result<void> read_fingerprints();
  Result<void> read_log();
  std::string fingerprint_path() const { return folder_ + "/fingerprint"; }
  Error changed(const std::string& name, std::uint64_t seq) const;

  std::string folder_;
  std::optional<jobs::StateFolder> folder_lock_;  // of one that is not only looked at
  std::optional<jobs::JobLog> log_;
  std::vector<bool> done_;  // by seq
  std::uint64_t done_count_ = 0;
  bool has_earlier_run_ = false;
  std::vector<std::uint64_t> earlier_;  // fingerprints
  FileDescriptor fingerprints_;
};

}  // namespace keyway::batch
