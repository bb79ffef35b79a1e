// How jobs come in.
#include <algorithm>

#include "batch/batch_parts.h"
#include "batch/batch_runner.h"

namespace keyway::batch {

namespace {

// So that the first jobs start before the last ones are read.
constexpr int kJobsPerTurn = 256;

}  // namespace

// Once the window is full, a fourth of it must be free again: not a read for every job that ends.
void BatchRunner::feed_soon() {
  if (!at_end_ && stop_ == Stop::kNot && has_room(kWindowJobs / 4 * 3, kWindowBytes / 4 * 3)) {
    feeder_->post();
  }
}

bool BatchRunner::has_room(std::uint64_t jobs, std::uint64_t bytes) const {
  // What ended but cannot be printed yet is in the window too.
  const bool keeps_order = options_.output == OutputMode::kKeepOrder;
  const std::uint64_t held = keeps_order ? reader_.jobs() + 1 - ordered_.next() : live_;
  return std::max(held, live_) < jobs && live_bytes_ < bytes;
}

// True if there is more to read now.
bool BatchRunner::feed_some() {
  for (int i = 0; i < kJobsPerTurn; ++i) {
    if (at_end_ || stop_ != Stop::kNot || !has_room(kWindowJobs, kWindowBytes)) return false;
    // What is refused is said at once: that too must be printed before more is read.
    if (printer_.congested()) return false;
    if (input_.total && reader_.jobs() == *input_.total) {
      at_end_ = true;  // what was added since the file was checked is left for the next run
      return false;
    }
    switch (reader_.next()) {
      case JobReader::Next::kJob:
        take_job();
        break;
      case JobReader::Next::kNeedsInput:
        if (wait_for_input()) return false;
        break;
      case JobReader::Next::kEnd:
        at_end_ = true;
        if (input_.total) {
          input_failed({ErrorCode::kConflict,
                        options_.jobs_file +
                            " became shorter while it was read\n  try: put it back and run it "
                            "again: it resumes"});
        }
        break;
      case JobReader::Next::kFailed:
        input_failed(reader_.error());
        return false;
    }
  }
  return true;
}

// True if it comes later.
bool BatchRunner::wait_for_input() {
  if (!input_.total && host_.loop != nullptr && feeder_->wait()) return true;
  fill();
  return false;
}

void BatchRunner::fill() {
  const Result<void> filled = reader_.fill();
  if (!filled) input_failed({ErrorCode::kIo, options_.jobs_file + ": " + filled.error().message});
}

void BatchRunner::input_failed(const Error& error) {
  at_end_ = true;
  if (!failure_) failure_ = error;
  stop(Ending::kInputFailed, Stop::kDrain, /*within_grace=*/false);
}

void BatchRunner::take_job() {
  const std::uint64_t seq = reader_.seq();
  if (state_ != nullptr && !input_.total) {
    const Result<void> matched =
        state_->match_next(options_.name, seq, fingerprint_of(reader_.text()));
    if (!matched) return input_failed(matched.error());
  }
  if (state_ != nullptr && state_->is_done(seq)) {
    ++resumed_past_;
    if (options_.output == OutputMode::kKeepOrder) ordered_.skip(seq);
    return;
  }
  const Job& job = reader_.job();
  auto* live = new LiveJob(*this, reader_.text());  // forget() ends it
  live->seq = seq;
  live->line = reader_.line();
  live->weight = job.weight;
  live->group = &groups_.enter(job.group, now());
  ++live_;
  live_bytes_ += live->size;
  groups_seen_.insert(hash_key(job.group));
  submit(*live, Place::kBack);
}

}  // namespace keyway::batch
