// How a job runs, try by try.
#include <algorithm>
#include <csignal>

#include "base/json_text.h"
#include "batch/batch_parts.h"
#include "batch/batch_runner.h"
#include "jobs/halt.h"

namespace keyway::batch {

namespace {

// "It will never work": no other try.
constexpr int kPermanentFailure = 65;

std::string variable(std::string_view name, std::string_view value) {
  std::string entry = "KEYWAY_";
  entry += name;
  entry += '=';
  entry += value;
  return entry;
}

std::string not_started(const Job& job, const std::string& why) {
  std::string text = "keyway: job ";
  append_json_string(text, job.id);
  return text + ": " + why + "\n";
}

}  // namespace

// A job that is tried again comes before the others of its group.
void BatchRunner::submit(LiveJob& live, Place place) {
  live.queued = now();
  const TaskOptions options{.cost = live.weight, .priority = place == Place::kFront ? 1 : 0};
  const Result<void> posted =
      executor_->post(live.group->name(), options, [this, &live] { return run_attempt(&live); });
  if (!posted) refuse(live);
}

// A pointer, because the job outlives its coroutine and is ended by it.
Task<> BatchRunner::run_attempt(LiveJob* waiting) {
  LiveJob& live = *waiting;
  if (stop_ != Stop::kNot) {
    give_up(live, /*rested=*/false);
    co_return;
  }
  Job job;
  const Result<void> parsed = parser_.parse({live.text.get(), live.size}, live.line, job);
  KEYWAY_CHECK(parsed.ok(), "a job that was read cannot be read again");
  const int most_attempts = 1 + job.retries.value_or(options_.retries);
  const std::chrono::milliseconds timeout = job.timeout.value_or(options_.timeout);
  groups_.start(*live.group, live.weight, now());
  LoggedAttempt attempt = begin_attempt(live, job);
  JobOutput output(options_.output, printer_);
  {
    ProcessWait wait(output);
    const Command command = command_for(job, attempt, most_attempts, timeout);
    const std::unique_ptr<Process> process = processes_.start(command, wait);
    output.set_process(*process);
    Try running(*this, attempt, *process, timeout);
    const ProcessExit exit = co_await wait;
    if (!exit.failure.empty()) output.output(Stream::kErr, not_started(job, exit.failure));
    judge(attempt, exit, running, most_attempts);
  }
  output.finish();
  if (attempt.outcome != AttemptOutcome::kOk) attempt.error_output = output.end_of_errors();
  if (!attempt.final) output.kept(Stream::kOut) = CapturedOutput();
  if (options_.output == OutputMode::kKeepOrder && attempt.final) {
    ordered_.add(live.seq, output.kept(Stream::kOut), output.kept(Stream::kErr));
  } else {
    // Lines are on their way already: the last of them is waited for.
    co_await jobs::Printing(printer_, std::move(output.kept(Stream::kOut)),
                            std::move(output.kept(Stream::kErr)),
                            /*waits_for_others=*/options_.output == OutputMode::kLine);
  }
  free_slots_.push(attempt.slot);
  settle(live, attempt);
}

LoggedAttempt BatchRunner::begin_attempt(LiveJob& live, const Job& job) {
  KEYWAY_CHECK(!free_slots_.empty(), "more jobs run than there are slots");
  LoggedAttempt attempt;
  attempt.id = job.id;
  attempt.seq = live.seq;
  attempt.key = job.group;
  attempt.group = job.group;
  attempt.slot = free_slots_.top();
  free_slots_.pop();
  attempt.attempt = ++live.attempts;
  attempt.queued = wall(live.queued);
  attempt.start = wall(now());
  return attempt;
}

Command BatchRunner::command_for(const Job& job, const LoggedAttempt& attempt, int most_attempts,
                                 std::chrono::milliseconds timeout) const {
  Command command;
  command.argv = job.argv;
  command.directory = job.directory;
  command.captures_output = options_.output != OutputMode::kNone;
  std::vector<std::string>& environment = command.environment;
  environment.reserve(job.environment.size() + 9);
  environment.push_back(variable("KEY", job.group));
  environment.push_back(variable("GROUP", job.group));
  environment.push_back(variable("ID", job.id));
  environment.push_back(variable("SEQ", std::to_string(attempt.seq)));
  environment.push_back(variable("ATTEMPT", std::to_string(attempt.attempt)));
  environment.push_back(variable("MAX_ATTEMPTS", std::to_string(most_attempts)));
  environment.push_back(variable("SLOT", std::to_string(attempt.slot)));
  environment.push_back(variable("RUN_ID", host_.run_id));
  if (timeout.count() > 0) {
    const auto deadline = std::chrono::floor<std::chrono::milliseconds>(attempt.start) + timeout;
    environment.push_back(
        variable("DEADLINE", std::to_string(deadline.time_since_epoch().count())));
  }
  environment.insert(environment.end(), job.environment.begin(), job.environment.end());
  return command;
}

void BatchRunner::judge(LoggedAttempt& attempt, const ProcessExit& exit, const Try& running,
                        int most_attempts) const {
  attempt.end = wall(now());
  attempt.exit = exit.status;
  attempt.signal = exit.signal;
  const bool ok = exit.status == 0 && exit.signal == 0 && !running.timed_out();
  const bool is_permanent = exit.signal == 0 && exit.status == kPermanentFailure;
  if (ok) {
    attempt.outcome = AttemptOutcome::kOk;
  } else if (running.is_cancelled() && !running.timed_out()) {
    attempt.outcome = AttemptOutcome::kCancelled;
  } else if (!is_permanent && attempt.attempt < most_attempts) {
    attempt.outcome = AttemptOutcome::kRetry;
  } else {
    attempt.outcome = running.timed_out() ? AttemptOutcome::kTimedOut : AttemptOutcome::kFailed;
  }
  attempt.final =
      attempt.outcome != AttemptOutcome::kRetry && attempt.outcome != AttemptOutcome::kCancelled;
}

// A job that its group's queue has no place for: it fails without having run.
void BatchRunner::refuse(LiveJob& live) {
  Job job;
  const Result<void> parsed = parser_.parse({live.text.get(), live.size}, live.line, job);
  KEYWAY_CHECK(parsed.ok(), "a job that was read cannot be read again");
  LoggedAttempt attempt;
  attempt.id = job.id;
  attempt.seq = live.seq;
  attempt.key = job.group;
  attempt.group = job.group;
  attempt.attempt = ++live.attempts;
  attempt.queued = attempt.start = attempt.end = wall(now());
  attempt.outcome = AttemptOutcome::kFailed;
  printer_.print_text(Stream::kErr, not_started(job, "the queue of its group is full"));
  if (options_.output == OutputMode::kKeepOrder) ordered_.skip(live.seq);
  groups_.start(*live.group, live.weight, now());  // to settle() it is one that ran
  settle(live, attempt);
}

void BatchRunner::record(const LoggedAttempt& attempt) {
  if (attempt.slot != 0) {
    run_times_.add(attempt.end - attempt.start);
    wait_times_.add(attempt.start - attempt.queued);
  }
  if (state_ != nullptr) {
    if (const Result<void> written = state_->log().append(attempt); !written && !failure_) {
      failure_ = written.error();
      failure_->message +=
          "; no other job starts\n  try: make room and run it again: it resumes, and "
          "repeats only what is not in the joblog";
      stop(Ending::kStoreFailed, Stop::kDrain, /*within_grace=*/false);
    }
  }
  if (host_.attempt_ended) host_.attempt_ended(attempt);
}

void BatchRunner::settle(LiveJob& live, const LoggedAttempt& attempt) {
  record(attempt);
  count_end(attempt);
  if (attempt.outcome == AttemptOutcome::kRetry && stop_ == Stop::kNot) {
    try_again(live);
    return;
  }
  if (!attempt.final) ++given_up_;
  groups_.end(*live.group, live.weight, now());
  forget(live);
  if (jobs::halt_is_reached(options_.halt, failed_, ok_ + failed_)) {
    const bool at_once = options_.halt.when == jobs::Halt::When::kNow;
    stop(Ending::kHalted, at_once ? Stop::kTerminate : Stop::kDrain, /*within_grace=*/false);
  }
}

// Full jitter: jobs that failed together do not come back together.
void BatchRunner::try_again(LiveJob& live) {
  const std::int64_t first = options_.backoff.first.count();
  const std::int64_t most = options_.backoff.most.count();
  const int doublings = std::min(live.attempts - 1, 62);
  const std::int64_t longest = first <= most >> doublings ? first << doublings : most;
  std::uniform_int_distribution<std::int64_t> pick(0, longest);

  groups_.rest(*live.group, live.weight, now());
  resting_.insert(&live);
  scheduler_.add_timer(live, now() + std::chrono::milliseconds(pick(random_)));
}

void BatchRunner::rested(LiveJob& live) {
  resting_.erase(&live);
  groups_.again(*live.group, now());
  submit(live, Place::kFront);
}

}  // namespace keyway::batch
