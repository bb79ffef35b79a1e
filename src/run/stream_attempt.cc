// How a record is handled, try by try.
#include <utility>

#include "run/stream_parts.h"
#include "run/stream_run.h"

namespace keyway::run {

// A pointer, because a coroutine's parameters are copied; the record is there until it has ended.
Task<Outcome> StreamRun::attempt(const Record* record, Attempt number) {
  if (stop_ != Stop::kNot) {
    if (number.number >= number.most) cancelled_.insert(parts_.source.id_of(*record));
    co_return retry("the run was stopped");
  }
  LoggedAttempt logged = begin(*record, number);
  const std::string unique_id = parts_.source.unique_id_of(*record);
  Call call{.record = record,
            .attempt = number,
            .id = logged.id,
            .unique_id = unique_id,
            .key = logged.key,
            .group = logged.group,
            .source = source_name_,
            .slot = logged.slot};
  Task<Handled> handling = parts_.handler.handle(call);
  Handled handled = co_await std::move(handling);
  logged.end = wall(now());
  judge(logged, handled, number);
  if (logged.outcome != AttemptOutcome::kOk || !options_.prints_output) {
    handled.output = CapturedOutput();
  }
  if (!handled.output.empty() || !handled.errors.empty()) {
    jobs::Printing printing(printer_, std::move(handled.output), std::move(handled.errors));
    co_await printing;
  }
  free_slots_.push(logged.slot);
  --running_;
  settle(logged, *record);
  co_return std::move(handled.outcome);
}

LoggedAttempt StreamRun::begin(const Record& record, const Attempt& number) {
  KEYWAY_CHECK(!free_slots_.empty(), "more records run than there are slots");
  LoggedAttempt attempt;
  attempt.id = parts_.source.id_of(record);
  attempt.seq = record.number;
  if (record.key) attempt.key = *record.key;
  attempt.group = record.group ? std::string(*record.group) : attempt.key;
  attempt.slot = free_slots_.top();
  free_slots_.pop();
  ++running_;
  attempt.attempt = number.number;
  const TimePoint start = now();
  attempt.start = wall(start);
  attempt.queued = number.queued == TimePoint() ? attempt.start : wall(number.queued);
  if (number.number == 1 && record.key) keys_.start(*record.key);
  return attempt;
}

void StreamRun::judge(LoggedAttempt& attempt, const Handled& handled, const Attempt& number) {
  const Outcome& outcome = handled.outcome;
  attempt.has_exit = outcome.kind == Outcome::kDone || outcome.exit.has_value();
  attempt.exit = outcome.exit.value_or(0);
  attempt.signal = handled.signal;
  attempt.error_output = outcome.stderr_tail;
  const bool is_last = number.number >= number.most;
  if (outcome.kind == Outcome::kDone) {
    attempt.outcome = AttemptOutcome::kOk;
  } else if (outcome.kind == Outcome::kRetry && is_ending_attempts() && !handled.timed_out) {
    attempt.outcome = AttemptOutcome::kCancelled;
    if (is_last) cancelled_.insert(attempt.id);
  } else if (outcome.kind == Outcome::kRetry && !is_last) {
    attempt.outcome = AttemptOutcome::kRetry;
  } else {
    attempt.outcome = handled.timed_out ? AttemptOutcome::kTimedOut : AttemptOutcome::kFailed;
  }
  attempt.final =
      attempt.outcome != AttemptOutcome::kRetry && attempt.outcome != AttemptOutcome::kCancelled;
}

void StreamRun::settle(const LoggedAttempt& attempt, const Record& record) {
  run_times_.add(attempt.end - attempt.start);
  wait_times_.add(attempt.start - attempt.queued);
  if (record.key) {
    keys_.add_time(*record.key, attempt.end - attempt.start, attempt.final);
    if (attempt.final) keys_.leave(*record.key, /*started=*/true);
  }
  if (parts_.log != nullptr && parts_.log->add(attempt)) flush_log();
  if (host_.attempt_ended) host_.attempt_ended(attempt);
  switch (attempt.outcome) {
    case AttemptOutcome::kOk:
      ++ok_;
      if (attempt.attempt > 1) ++ok_after_retry_;
      halt_if_reached();
      break;
    case AttemptOutcome::kRetry:
      ++retries_;
      break;
    case AttemptOutcome::kTimedOut:
      ++timed_out_;
      break;
    case AttemptOutcome::kFailed:
    case AttemptOutcome::kCancelled:
      break;
  }
}

// Counted here, because this is where all of them come: also those that were never tried.
Result<void> StreamRun::store_dead(const DeadLetter& letter) {
  if (letter.attempts > 0 && cancelled_.contains(letter.id)) {
    return Error{ErrorCode::kCancelled, "the run ended the attempt"};
  }
  Result<void> stored = parts_.dead_letters->store(letter);
  if (!stored) return stored;
  const Record& record = *letter.record;
  const bool waited = letter.attempts == 0 && record.defect.empty();
  if (waited && record.key) keys_.leave(*record.key, /*started=*/false);
  ++dead_;
  halt_if_reached();
  return {};
}

}  // namespace keyway::run
