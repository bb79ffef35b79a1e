#include "batch/batch_runner.h"

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "base/system_error.h"
#include "batch/batch_parts.h"

namespace keyway::batch {

namespace {

GroupLimits limits_of(const jobs::GroupLimit& limit) {
  return {.max_concurrency = limit.limit,
          .max_in_flight = limit.max_in_flight,
          .queue_threshold = limit.queue};
}

GroupPolicy policy_of(const Options& options) {
  GroupPolicy policy;
  for (const auto& [name, limit] : options.limits.groups) policy.groups[name] = limits_of(limit);
  policy.default_group = limits_of(options.limits.standard);
  policy.global_max_in_flight = options.jobs;
  policy.rejection = RejectionPolicy::kDiscard;
  return policy;
}

std::string name_of(const Options& options) {
  if (!options.name.empty()) return options.name;
  return options.jobs_file == "-" ? "stdin" : options.jobs_file;
}

}  // namespace

BatchRunner::BatchRunner(const Options& options, Input input, RunState* state,
                         DrivenScheduler& scheduler, Processes& processes, Host host)
    : options_(options),
      input_(input),
      state_(state),
      scheduler_(scheduler),
      processes_(processes),
      host_(std::move(host)),
      began_(scheduler.now()),
      began_wall_(std::chrono::system_clock::now()),
      reader_(name_of(options), input.descriptor, options.limits,
              input.total ? JobReader::Ids::kTrusted : JobReader::Ids::kChecked),
      feeder_(std::make_unique<Feeder>(*this)),
      printer_(host_.out, host_.err, host_.loop,
               {.before_output = host_.before_output,
                .failed =
                    [this](int error) {
                      if (error != EPIPE && !failure_) {
                        failure_ = system_error("cannot write to stdout", error);
                      }
                      stop(Ending::kOutputClosed, Stop::kDrain, /*within_grace=*/true);
                    },
                .drained =
                    [this] {
                      for (Try* running : running_) {
                        if (running != nullptr) running->process().resume_output();
                      }
                      feed_soon();
                    }}),
      ordered_(printer_, [this] { feed_soon(); }),
      groups_([this](std::string_view group) { return jobs::limit_of(options_.limits, group); }),
      random_(host_.seed),
      running_(static_cast<std::size_t>(options.jobs)),
      executor_(std::make_unique<GroupExecutor>(policy_of(options), scheduler)) {
  for (int slot = 1; slot <= options.jobs; ++slot) free_slots_.push(slot);
}

BatchRunner::~BatchRunner() {
  stop(Ending::kInterrupted, Stop::kKill, /*within_grace=*/false);
  // What was posted must run, or somebody would run what is gone.
  while ((live_ > 0 || feeder_->posted()) && scheduler_.run_one()) {
  }
  executor_.reset();
}

Summary BatchRunner::run() {
  feed_soon();
  while (!finished()) {
    const bool did_something = scheduler_.run_one();
    KEYWAY_CHECK(did_something, "a batch has jobs left, but nothing to wait for");
  }
  ordered_.finish();
  while (!printer_.idle() && scheduler_.run_one()) {
  }
  grace_.reset();
  return summary();
}

bool BatchRunner::finished() const { return live_ == 0 && (at_end_ || stop_ != Stop::kNot); }

LoggedAttempt::Time BatchRunner::wall(TimePoint time) const {
  return began_wall_ + std::chrono::duration_cast<LoggedAttempt::Time::duration>(time - began_);
}

void BatchRunner::notice(std::string_view text) const {
  if (host_.notice) host_.notice(text);
}

// ---- the end of jobs

void BatchRunner::count_end(const LoggedAttempt& attempt) {
  switch (attempt.outcome) {
    case AttemptOutcome::kOk:
      ++ok_;
      if (attempt.attempt > 1) ++ok_after_retry_;
      break;
    case AttemptOutcome::kTimedOut:
      ++timed_out_;
      [[fallthrough]];
    case AttemptOutcome::kFailed:
      ++failed_;
      break;
    case AttemptOutcome::kRetry:
      ++retries_;
      break;
    case AttemptOutcome::kCancelled:
      break;
  }
}

void BatchRunner::give_up(LiveJob& live, bool rested) {
  ++given_up_;
  groups_.give_up(*live.group, now(), rested);
  forget(live);
}

void BatchRunner::forget(LiveJob& live) {
  --live_;
  live_bytes_ -= live.size;
  delete &live;
  feed_soon();
}

// ---- stopping

void BatchRunner::signal_received(int signal) {
  const std::optional<jobs::StopStep> next = jobs::step_after(stop_, signal);
  if (!next) return;
  notice(next->notice);
  stop(next->reason, next->step, /*within_grace=*/next->step == Stop::kDrain);
}

void BatchRunner::stop(Ending reason, Stop step, bool within_grace) {
  if (stop_ == Stop::kNot) {
    ending_ = reason;
    feeder_->stop_waiting();
    stop_ = Stop::kDrain;  // before jobs are given up: no other is read for them
    for (LiveJob* live : std::exchange(resting_, {})) {
      scheduler_.cancel_timer(*live);
      give_up(*live, /*rested=*/true);
    }
    if (within_grace && step == Stop::kDrain) grace_ = std::make_unique<GraceTimer>(*this);
  }
  if (step <= stop_) return;
  stop_ = step;
  if (step == Stop::kKill) printer_.give_up();
  for (Try* running : running_) {
    if (running == nullptr) continue;
    if (step == Stop::kKill) {
      running->kill();
    } else {
      running->cancel();
    }
  }
}

// ---- what is told

Progress BatchRunner::progress() const {
  Progress progress;
  progress.name = name_of(options_);
  if (input_.total) {
    progress.total = *input_.total - (state_ == nullptr ? 0 : state_->done());
  } else if (at_end_) {
    progress.total = reader_.jobs() - resumed_past_;
  }
  progress.ended = ok_ + failed_;
  progress.ok = ok_;
  progress.retries = retries_;
  progress.failed = failed_;
  progress.running = running_count_;
  progress.jobs = options_.jobs;
  progress.groups = groups_seen_.size();
  progress.groups_waiting = groups_.waiting_groups();
  progress.elapsed = jobs::in_milliseconds(now() - began_);
  return progress;
}

std::string BatchRunner::describe_running() const {
  std::string text = std::to_string(running_count_) + " running";
  const LoggedAttempt::Time at = wall(now());
  for (const Try* running : running_) {
    if (running == nullptr) continue;
    const LoggedAttempt& attempt = running->attempt();
    char since[32];
    std::snprintf(since, sizeof since, "%.1f",
                  std::chrono::duration<double>(at - attempt.start).count());
    text += "\n  " + attempt.id + "  group " + attempt.group + "  pid " +
            std::to_string(running->process().pid()) + "  try " + std::to_string(attempt.attempt) +
            "  since " + since + " s";
  }
  return text;
}

Summary BatchRunner::summary() {
  Summary summary;
  summary.ending = ending_;
  summary.failure = failure_;
  summary.jobs = ok_ + failed_;
  summary.groups = groups_seen_.size();
  summary.ok = ok_;
  summary.ok_after_retry = ok_after_retry_;
  summary.failed = failed_;
  summary.timed_out = timed_out_;
  const std::uint64_t done_before = state_ == nullptr ? 0 : state_->done();
  summary.not_run = input_.total ? *input_.total - done_before - summary.jobs : given_up_;
  summary.resumed_past = input_.total ? done_before : resumed_past_;
  summary.elapsed = jobs::in_milliseconds(now() - began_);
  summary.running = jobs::quantiles_of(run_times_);
  summary.waiting = jobs::quantiles_of(wait_times_);
  const auto bound = groups_.longest_bound(now());
  // For less than half of the time it was not the one that mattered.
  if (bound && bound->time * 2 >= now() - began_) {
    summary.bound_by = bound->group;
    summary.bound_jobs = bound->jobs;
    summary.bound_time = jobs::in_milliseconds(bound->time);
  }
  if (state_ != nullptr) summary.joblog_file = state_->log_path();
  return summary;
}

}  // namespace keyway::batch
