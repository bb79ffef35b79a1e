#include "run/stream_run.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/human_text.h"
#include "base/system_error.h"
#include "run/stream_parts.h"

namespace keyway::run {

using jobs::Ending;

namespace {

// The pipeline waits as long as attempts run: how long that is, is decided here.
constexpr Duration kVeryLong = std::chrono::hours(24 * 365);

}  // namespace

StreamRun::StreamRun(const RunOptions& options, RunParts parts, DrivenScheduler& scheduler,
                     RunHost host)
    : options_(options),
      parts_(std::move(parts)),
      scheduler_(scheduler),
      host_(std::move(host)),
      began_(scheduler.now()),
      began_wall_(std::chrono::system_clock::now()),
      source_name_(parts_.source.name()),
      source_(std::make_unique<WatchedSource>(*this, parts_.source)),
      printer_(host_.out, host_.err, host_.loop,
               {.before_output = host_.before_output,
                .failed =
                    [this](int error) {
                      if (error != EPIPE && !failure_) {
                        failure_ = system_error("cannot write to stdout", error);
                      }
                      stop(Ending::kOutputClosed, Stop::kDrain, /*within_grace=*/true);
                    },
                .drained = {}}) {
  for (int slot = 1; slot <= options.jobs; ++slot) free_slots_.push(slot);
  parts_.handler.on_failure = [this](const Error& error) { handler_failed(error); };
  pipeline_ = std::make_unique<Pipeline>(
      *source_, pipeline_options(),
      [this](const Record& record, const Attempt& number) { return attempt(&record, number); },
      scheduler_);
}

StreamRun::~StreamRun() { parts_.handler.on_failure = nullptr; }

PipelineOptions StreamRun::pipeline_options() {
  PipelineOptions options;
  options.order = options_.order;
  options.concurrency = options_.jobs;
  options.classify = [this](Record& record) { return classify(record); };
  options.by_group = !options_.group.empty();
  const int standard = jobs::limit_of({.groups = {}, .standard = options_.limits.standard}, {});
  (options.by_group ? options.group_concurrency : options.key_concurrency) = standard;
  // Limits of keys need order by key: a pipeline refuses them otherwise.
  const bool has_limits = options.by_group || options.order == Order::kKey;
  for (const auto& [name, limit] : options_.limits.groups) {
    if (!has_limits) break;
    options.limits[name] = {.max_concurrency = jobs::limit_of(options_.limits, name)};
  }
  options.delivery = options_.delivery;
  options.retry = {.attempts = options_.retries + 1,
                   .first = options_.backoff.first,
                   .ceiling = options_.backoff.most,
                   .attempt_timeout = {}};
  options.dead_letters = std::make_shared<WatchedLetters>(*this);
  options.on_dead = options_.on_dead;
  options.max_in_flight = options_.max_in_flight;
  // So that a key which is stuck leaves room for others.
  options.max_in_flight_per_key = static_cast<int>(options_.max_in_flight / 10 + 1);
  options.max_window = std::max(options.max_window, options_.max_in_flight);
  options.max_in_flight_bytes = options_.max_in_flight_bytes;
  options.commit_interval = options_.commit_interval;
  options.shutdown_wait = kVeryLong;
  options.handled_ids = parts_.handled_ids;
  options.seed = host_.seed;
  return options;
}

Result<bool> StreamRun::classify(Record& record) {
  if (parts_.classify) {
    Result<bool> wanted = parts_.classify(record);
    if (!wanted) {
      return Error{ErrorCode::kIo,
                   wanted.error().message + "\n  try: --key-missing dead|skip|NAME"};
    }
    if (!*wanted) return false;
  }
  if (record.key && record.defect.empty()) keys_.enter(*record.key);
  return true;
}

Result<jobs::Summary> StreamRun::run() {
  const Result<PipelineEnd> end = pipeline_->run_until(stopping_.get_token());
  if (!source_->was_opened()) return end.error();
  finish_handler();
  flush_log();
  while (!printer_.idle() && scheduler_.run_one()) {
  }
  return summary(end);
}

// Workers are told that no record comes, and exit; those that do not are ended.
void StreamRun::finish_handler() {
  parts_.handler.no_more();
  if (!grace_) grace_ = std::make_unique<GraceTimer>(*this);
  sync_wait(scheduler_, parts_.handler.finished());
  grace_.reset();
}

LoggedAttempt::Time StreamRun::wall(TimePoint time) const {
  return began_wall_ + std::chrono::duration_cast<LoggedAttempt::Time::duration>(time - began_);
}

void StreamRun::notice(std::string_view text) const {
  if (host_.notice) host_.notice(text);
}

void StreamRun::flush_log() {
  if (parts_.log == nullptr) return;
  const Result<void> written = parts_.log->flush();
  if (written || failure_) return;
  failure_ = written.error();
  failure_->message += "\n  try: make room and run it again: it resumes";
  stop(Ending::kStoreFailed, Stop::kDrain, /*within_grace=*/false);
}

// ---- what is read

// Once it is known where reading begins.
void StreamRun::first_records(const std::vector<Record>& records, bool at_end) {
  const InputPosition position = parts_.position();
  if (!position.resumed) return;
  const std::string done = grouped(position.resumed_past);
  if (at_end) return notice(source_name_ + ": all " + done + " records are done already");
  std::string where = source_name_;
  if (options_.sources.size() == 1) where += " at line " + grouped(records.front().number);
  notice("resuming " + where + ": " + done +
         (position.resumed_past == 1 ? " record is" : " records are") + " done already");
}

// ---- stopping

void StreamRun::signal_received(int signal) {
  const std::optional<jobs::StopStep> next = jobs::step_after(stop_, signal);
  if (!next) return;
  notice(next->notice);
  stop(next->reason, next->step, /*within_grace=*/next->step == Stop::kDrain);
}

void StreamRun::stop(Ending reason, Stop step, bool within_grace) {
  if (stop_ == Stop::kNot) {
    ending_ = reason;
    stop_ = Stop::kDrain;
    stopping_.request_stop();
    if (within_grace && step == Stop::kDrain) grace_ = std::make_unique<GraceTimer>(*this);
  }
  if (step <= stop_) return;
  stop_ = step;
  if (step == Stop::kKill) printer_.give_up();
  parts_.handler.end(step == Stop::kKill ? SIGKILL : SIGTERM);
}

void StreamRun::grace_is_over() {
  notice("the grace is over: ending what still runs");
  if (stop_ == Stop::kNot) return parts_.handler.end(SIGTERM);
  stop(ending_, Stop::kTerminate, /*within_grace=*/false);
}

void StreamRun::handler_failed(const Error& error) {
  handler_failed_ = true;
  if (!failure_) failure_ = error;
  stop(Ending::kHandlerFailed, Stop::kTerminate, /*within_grace=*/false);
}

void StreamRun::halt_if_reached() {
  if (!jobs::halt_is_reached(options_.halt, dead_, ok_ + dead_)) return;
  const bool at_once = options_.halt.when == jobs::Halt::When::kNow;
  stop(Ending::kHalted, at_once ? Stop::kTerminate : Stop::kDrain, /*within_grace=*/false);
}

// ---- what is told

jobs::Progress StreamRun::progress() const {
  const PipelineStats stats = pipeline_->stats();
  const InputPosition position = parts_.position();
  jobs::Progress progress;
  progress.name = source_name_;
  std::optional<std::uint64_t> total = position.total_records;
  if (!total && position.total_bytes && position.bytes > 0) {
    total = static_cast<std::uint64_t>(static_cast<double>(*position.total_bytes) *
                                       static_cast<double>(position.records) /
                                       static_cast<double>(position.bytes));
    progress.total_is_estimate = position.bytes < *position.total_bytes;
  }
  if (total) {
    const std::uint64_t others = position.resumed_past + stats.left_out + stats.duplicates;
    progress.total = std::max(*total - std::min(others, *total), ok_ + dead_);
  }
  progress.ended = ok_ + dead_;
  progress.ok = ok_;
  progress.retries = retries_;
  progress.failed = dead_;
  progress.running = running_;
  progress.jobs = options_.jobs;
  progress.groups = keys_.seen();
  // What was handled before does not tell that it is done with.
  progress.groups_waiting = parts_.handled_ids == nullptr ? keys_.waiting() : 0;
  progress.elapsed = jobs::in_milliseconds(now() - began_);
  return progress;
}

StreamSample StreamRun::sample() const {
  const PipelineStats stats = pipeline_->stats();
  StreamSample sample;
  sample.time = wall(now());
  sample.in_flight = stats.in_flight;
  for (const PartitionStats& partition : stats.partitions) {
    sample.watermark += static_cast<std::uint64_t>(partition.watermark);
    sample.done_above += partition.done_above;
  }
  return sample;
}

std::string StreamRun::describe_running() const {
  std::string text = std::to_string(running_) + " running";
  const std::string lines = parts_.handler.describe_running();
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    text += "\n  " + lines.substr(at, end - at);
    at = end + 1;
  }
  return text;
}

jobs::Summary StreamRun::summary(const Result<PipelineEnd>& end) {
  const PipelineStats stats = pipeline_->stats();
  const InputPosition position = parts_.position();
  jobs::Summary summary;
  summary.ending = ending_;
  summary.failure = failure_;
  if (end && end->why == PipelineEnd::kHalted) {
    summary.ending = Ending::kHalted;
    notice("halted by " + end->halted_by + " (--on-dead halt)");
  }
  // A letter that is refused because the run ended its attempt is no failure.
  const bool is_own = !end && end.error().code == ErrorCode::kCancelled;
  if (!end && !is_own && !failure_) {
    summary.failure = end.error();
    if (stop_ == Stop::kNot) summary.ending = Ending::kInputFailed;
  }
  summary.jobs = ok_ + dead_;
  summary.groups = keys_.seen();
  summary.ok = ok_;
  summary.ok_after_retry = ok_after_retry_;
  summary.failed = dead_;
  summary.timed_out = timed_out_;
  summary.left_out = stats.left_out;
  summary.duplicates = stats.duplicates;
  summary.resumed_past = position.resumed_past;
  const std::uint64_t accounted =
      summary.jobs + stats.left_out + stats.duplicates + summary.resumed_past;
  const std::uint64_t known = position.total_records.value_or(position.records);
  summary.not_run = known > accounted ? known - accounted : 0;
  summary.elapsed = jobs::in_milliseconds(now() - began_);
  summary.running = jobs::quantiles_of(run_times_);
  summary.waiting = jobs::quantiles_of(wait_times_);
  const bool is_serial = options_.order == Order::kKey && pipeline_options().key_concurrency == 1;
  const std::optional<KeyWatch::Bound> bound = keys_.longest();
  // For less than half of the time it was not the one that mattered.
  if (is_serial && bound && bound->records > 1 && bound->time * 2 >= now() - began_) {
    summary.bound_by = bound->key;
    summary.bound_jobs = bound->records;
    summary.bound_time = jobs::in_milliseconds(bound->time);
  }
  return summary;
}

}  // namespace keyway::run
