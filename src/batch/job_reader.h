// The jobs of a file or of standard input, one after the other, in bounded memory.
//
//   JobReader reader("jobs.jsonl", file.get(), limits);
//   while (true) {
//     switch (reader.next()) {
//       case JobReader::Next::kJob: use(reader.job(), reader.text()); break;
//       case JobReader::Next::kNeedsInput: reader.fill(); break;          // one read(2)
//       case JobReader::Next::kEnd: return;
//       case JobReader::Next::kFailed: return fail(reader.error());  // names file and line
//     }
//   }
//
// Guarantees:
//   (1) next() never waits; fill() waits only if the descriptor has nothing to read.
//   (2) Memory: 256 KiB, or the longest line; one above 16 MiB is an error.
//   (3) Blank lines are no jobs. The last line needs no newline.
//   (4) An id that was there before is an error. Only 8 bytes of each id are kept, so it is a
//       suspicion, with a chance of error of 3 in a hundred million for a million jobs; who can
//       read the input again makes sure.
//
// Thread safety: as std::vector.
// Lifetime: the descriptor and the limits outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "batch/batch_options.h"
#include "batch/job.h"
#include "jobs/hash_set.h"
#include "jobs/line_reader.h"
#include "keyway/error.h"

namespace keyway::batch {

class JobReader {
 public:
  // kTrusted: somebody has read this input before, and found no id twice.
  enum class Ids { kChecked, kTrusted };

  JobReader(std::string file, int descriptor, const Limits& limits, Ids ids = Ids::kChecked);

  enum class Next { kJob, kNeedsInput, kEnd, kFailed };
  Next next();
  Result<void> fill() { return lines_.fill(); }

  // Of kJob, until the next call of next() or fill().
  Job& job() { return job_; }
  std::string_view text() const { return text_; }
  std::uint64_t seq() const { return seq_; }    // which job it is, from 1
  std::uint64_t line() const { return line_; }  // which line, from 1
  // Of kFailed.
  const Error& error() const { return *error_; }
  // kFailed because of an id that seems to have been there before.
  bool is_duplicate() const { return is_duplicate_; }
  // It was not: the job is as good as one of kJob. REQUIRES: is_duplicate().
  void clear_suspicion();

  std::uint64_t jobs() const { return seq_; }  // until now
  std::uint64_t groups() const { return groups_.size(); }

 private:
  Next fail(const Error& error);
  Next check_job();
  void count_job();

  const std::string file_;
  const Limits& limits_;
  const Ids checks_ids_;
  jobs::LineReader lines_;
  JobParser parser_;
  std::string_view text_;
  Job job_;
  std::uint64_t seq_ = 0;
  std::uint64_t line_ = 0;
  std::optional<Error> error_;
  bool is_duplicate_ = false;
  jobs::HashSet ids_;
  jobs::HashSet groups_;
};

// What a check of a whole file finds out.
struct JobFileFacts {
  std::uint64_t jobs = 0;
  std::uint64_t groups = 0;
  std::vector<std::uint64_t> fingerprints;  // of each job's line, in order
};

// Reads a regular file to its end before anything runs: a mistake in the last line is found before
// the first job starts. The descriptor is at its beginning again afterwards.
Result<JobFileFacts> check_jobs(const std::string& file, int descriptor, const Limits& limits);

// Of a line; the same on every machine of the same byte order, and in every version.
std::uint64_t fingerprint_of(std::string_view text);

}  // namespace keyway::batch
