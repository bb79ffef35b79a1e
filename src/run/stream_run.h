// One run of a stream: a Pipeline whose handler is a Handler, and everything that is counted, printed, logged and
// decided about it.
//
//   StreamRun run(options, {.source = source, .handler = *handler, .log = &log}, loop, host);
//   jobs::Summary summary = run.run();
//
// Guarantees:
//   (1) An attempt has ended once its output is printed and its line is in the joblog's buffer; the buffer is written
//       before each commit. If that fails, nothing new begins.
//   (2) stdout of an attempt that is done is printed, that of others is dropped; what any of them wrote to stderr is
//       printed.
//   (3) An attempt that the run itself ended counts for nothing: its record is left for a later run, also if it was the
//       last of its tries.
//
// Stopping, each step once: nothing is read any more and what runs goes on, up to the grace; SIGTERM to what runs;
// SIGKILL. What is done is committed.
//
// Thread safety: the scheduler's thread alone.
// Lifetime: not after anything it was given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "handlers/handler.h"
#include "jobs/job_log.h"
#include "jobs/output_printer.h"
#include "jobs/run_progress.h"
#include "jobs/stopping.h"
#include "keyway/dead_letters.h"
#include "keyway/detail/driven_scheduler.h"
#include "keyway/pipeline.h"
#include "report/attempt.h"
#include "report/stream_sample.h"
#include "run/key_watch.h"
#include "run/run_options.h"

namespace keyway::run {

// How far reading has come, what an earlier run did included.
struct InputPosition {
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> total_bytes;
  std::uint64_t records = 0;
  std::optional<std::uint64_t> total_records;
  std::uint64_t resumed_past = 0;  // records that an earlier run did
  bool resumed = false;
};

// What it works with.
struct RunParts {
  Source& source;
  Handler& handler;
  std::function<Result<bool>(Record&)> classify;  // may be empty
  std::shared_ptr<DeadLetters> dead_letters;
  std::shared_ptr<HandledIds> handled_ids;  // may be null
  jobs::JobLog* log = nullptr;              // may be null
  std::function<InputPosition()> position;
};

// What surrounds it.
struct RunHost {
  int out = 1;
  int err = 2;
  EventLoop* loop = nullptr;  // without one, slow readers are waited for
  std::uint64_t seed = 0;     // of the jitter
  std::function<void(std::string_view text)> notice;
  std::function<void()> before_output;
  std::function<void(const LoggedAttempt& attempt)> attempt_ended;
};

class StreamRun {
 public:
  StreamRun(const RunOptions& options, RunParts parts, DrivenScheduler& scheduler, RunHost host);
  ~StreamRun();

  // Until the source ends or the run was stopped. Once. An error: the source could not be opened.
  Result<jobs::Summary> run();

  // SIGINT, SIGTERM: the next step of stopping. SIGHUP: the first, if it has not been made.
  void signal_received(int signal);

  jobs::Progress progress() const;
  StreamSample sample() const;
  std::string describe_running() const;
  // What long-lived handlers write to stderr.
  void print_errors(std::string_view text) { printer_.print_text(Stream::kErr, text); }
  // What is in the joblog's buffer.
  void flush_log();

 private:
  class WatchedSource;
  class WatchedLetters;
  class GraceTimer;
  using Stop = jobs::Stop;

  PipelineOptions pipeline_options();
  Result<bool> classify(Record& record);

  // One attempt.
  Task<Outcome> attempt(const Record* record, Attempt number);
  LoggedAttempt begin(const Record& record, const Attempt& number);
  void judge(LoggedAttempt& attempt, const Handled& handled, const Attempt& number);
  void settle(const LoggedAttempt& attempt, const Record& record);

  // The run as a whole.
  Result<void> store_dead(const DeadLetter& letter);
  void halt_if_reached();
  void handler_failed(const Error& error);
  void first_records(const std::vector<Record>& records, bool at_end);
  void finish_handler();
  void grace_is_over();
  void stop(jobs::Ending reason, Stop step, bool within_grace);
  bool is_ending_attempts() const { return stop_ >= Stop::kTerminate || handler_failed_; }
  void notice(std::string_view text) const;
  LoggedAttempt::Time wall(TimePoint time) const;
  TimePoint now() const { return scheduler_.now(); }
  jobs::Summary summary(const Result<PipelineEnd>& end);

  // Constant after construction.
  const RunOptions& options_;
  const RunParts parts_;
  DrivenScheduler& scheduler_;
  const RunHost host_;
  const TimePoint began_;
  const LoggedAttempt::Time began_wall_;
  const std::string source_name_;

  std::unique_ptr<WatchedSource> source_;
  jobs::OutputPrinter printer_;
  KeyWatch keys_;
  std::priority_queue<int, std::vector<int>, std::greater<>> free_slots_;
  std::set<std::string, std::less<>> cancelled_;  // ids of last tries that the run ended

  Stop stop_ = Stop::kNot;
  jobs::Ending ending_ = jobs::Ending::kFinished;
  std::optional<Error> failure_;
  bool handler_failed_ = false;
  std::stop_source stopping_;
  std::unique_ptr<GraceTimer> grace_;

  std::uint64_t ok_ = 0;
  std::uint64_t ok_after_retry_ = 0;
  std::uint64_t dead_ = 0;
  std::uint64_t timed_out_ = 0;
  std::uint64_t retries_ = 0;
  int running_ = 0;
  Histogram run_times_;
  Histogram wait_times_;

  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace keyway::run
