// joblog.jsonl: one line of JSON for each try that ended.
//
//   {"id":"a1","seq":7,"key":"db","group":"db","slot":2,"attempt":1,
//    "queued":"2026-11-15T11:07:43.120Z","start":...,"end":...,"wait_ms":3,"run_ms":1204,
//    "exit":0,"signal":0,"outcome":"ok","final":true}
//
// "exit" is null if a signal ended it or if it never ran. "outcome" is ok, retry (it failed and is
// tried again), failed, timeout, or cancelled (the run ended it). "final" is true if the job needs
// no other try in this run.
//
// Guarantees:
//   (1) When append() or flush() has returned without an error, the lines are the system's: they
//       outlive this program, though not a power failure.
//   (2) A line is written whole or, if there is no room, not at all. What a crash left of a last
//       line is cut off when the log is opened again.
//   (3) What is only added is kept until flush(), also if that fails: who adds must flush.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/file_descriptor.h"
#include "keyway/error.h"
#include "report/attempt.h"

namespace keyway::jobs {

const char* to_string(AttemptOutcome outcome);

// As a line of the log, with its newline.
void append_log_line(std::string& text, const LoggedAttempt& attempt);

class JobLog {
 public:
  // Opens it for appending, and makes it if there is none.
  static Result<JobLog> open(const std::string& path);

  Result<void> append(const LoggedAttempt& attempt) {
    add(attempt);
    return flush();
  }
  // For many lines with one write. True if so much is kept that it is time for one.
  bool add(const LoggedAttempt& attempt) {
    append_log_line(kept_, attempt);
    return kept_.size() >= kMostKept;
  }
  Result<void> flush();

  // Calls `ended` for each final line of a log: the job's number and whether it was ok. A log that
  // is not there is an empty one. Only the last line may be torn; any other that cannot be read is
  // an error (kConflict).
  static Result<void> read(const std::string& path,
                           const std::function<void(std::uint64_t seq, bool ok)>& ended);

 private:
  static constexpr std::size_t kMostKept = 64 * 1024;

  JobLog(std::string path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  FileDescriptor file_;
  std::string kept_;
};

}  // namespace keyway::jobs
