// Runs the jobs of one input: each in its group, under the limits, until it is ok or given up on.
//
//   BatchRunner runner(options, {.descriptor = file.get(), .total = facts.jobs}, &state, loop,
//                      processes, host);
//   Summary summary = runner.run();
//
// A job is submitted to a GroupExecutor under its group, as a coroutine that has its permits while
// its process runs. Whoever waits, for its turn or for its next try, holds nothing.
//
// Guarantees:
//   (1) Never more run than --jobs, nor of a group than its limit, where a job counts its weight.
//   (2) The jobs of a group start in the order of the input; one that is tried again comes before
//       those that wait for their first try.
//   (3) A job has ended once its output is printed (but see kKeepOrder) and its line is in the
//       joblog. If the joblog cannot be written, no other job starts.
//   (4) Memory is bounded: at most kWindowJobs or kWindowBytes of the input are read ahead,
//       whichever is less. So a group whose first job stands further down waits until jobs before
//       it have ended: sort the input by group only if you must.
//   (5) stdout of a try that is repeated, in this run or by a resume, is dropped (kLine: it is out
//       already); what it wrote to stderr is printed. So stdout has one result for each job.
//
// Stopping, each step once: no job starts any more and what runs goes on, up to the grace; SIGTERM
// to what runs (SIGKILL after the grace); SIGKILL. Jobs that were not run are left for a resume.
//
// Thread safety: the scheduler's thread alone.
// Lifetime: not after anything it was given. The destructor waits for what runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/histogram.h"
#include "batch/batch_options.h"
#include "batch/group_watch.h"
#include "batch/job_output.h"
#include "batch/job_reader.h"
#include "batch/run_state.h"
#include "jobs/ordered_output.h"
#include "jobs/output_printer.h"
#include "jobs/stopping.h"
#include "keyway/detail/driven_scheduler.h"
#include "keyway/group_executor.h"
#include "process/event_loop.h"
#include "process/process.h"
#include "report/attempt.h"

namespace keyway::batch {

inline constexpr std::uint64_t kWindowJobs = 100'000;
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{256} << 20;

struct Input {
  int descriptor = -1;
  std::optional<std::uint64_t> total;  // jobs; of an input that was checked already
};

// What surrounds a run.
struct Host {
  int out = 1;
  int err = 2;
  EventLoop* loop = nullptr;  // without one, slow input and output are waited for
  std::string run_id = "run";
  std::uint64_t seed = 0;  // of the jitter
  std::function<void(std::string_view text)> notice;
  std::function<void()> before_output;
  std::function<void(const LoggedAttempt& attempt)> attempt_ended;
};

class BatchRunner {
 public:
  // `state` may be null: then nothing is kept. Throws Exception for limits out of range.
  BatchRunner(const Options& options, Input input, RunState* state, DrivenScheduler& scheduler,
              Processes& processes, Host host);
  ~BatchRunner();

  // Until all is done or the run was stopped. Once.
  Summary run();

  // SIGINT, SIGTERM: the next step of stopping. SIGHUP: the first, if it has not been made.
  void signal_received(int signal);

  Progress progress() const;
  // One line for each job that runs: id, group, process, since when.
  std::string describe_running() const;

 private:
  struct LiveJob;
  class Try;
  class Feeder;
  using Stop = jobs::Stop;
  enum class Place { kBack, kFront };

  // Reading (batch_feed.cc)
  void feed_soon();
  bool feed_some();
  bool has_room(std::uint64_t jobs, std::uint64_t bytes) const;
  bool wait_for_input();
  void fill();
  void take_job();
  void input_failed(const Error& error);

  // Running (batch_attempt.cc)
  void submit(LiveJob& live, Place place);
  Task<> run_attempt(LiveJob* waiting);
  LoggedAttempt begin_attempt(LiveJob& live, const Job& job);
  Command command_for(const Job& job, const LoggedAttempt& attempt, int most_attempts,
                      std::chrono::milliseconds timeout) const;
  void judge(LoggedAttempt& attempt, const ProcessExit& exit, const Try& running,
             int most_attempts) const;
  void settle(LiveJob& live, const LoggedAttempt& attempt);
  void refuse(LiveJob& live);
  void record(const LoggedAttempt& attempt);
  void try_again(LiveJob& live);
  void rested(LiveJob& live);

  // The run as a whole (batch_runner.cc)
  void give_up(LiveJob& live, bool rested);
  void forget(LiveJob& live);
  void count_end(const LoggedAttempt& attempt);
  void stop(Ending reason, Stop step, bool within_grace);
  bool finished() const;
  void notice(std::string_view text) const;
  LoggedAttempt::Time wall(TimePoint time) const;
  TimePoint now() const { return scheduler_.now(); }
  Summary summary();

  // Constant after construction.
  const Options& options_;
  const Input input_;
  RunState* const state_;
  DrivenScheduler& scheduler_;
  Processes& processes_;
  const Host host_;
  const TimePoint began_;
  const LoggedAttempt::Time began_wall_;

  JobReader reader_;
  JobParser parser_;  // of jobs that start
  std::unique_ptr<Feeder> feeder_;
  bool at_end_ = false;

  jobs::OutputPrinter printer_;
  jobs::OrderedOutput ordered_;
  GroupWatch groups_;
  jobs::HashSet groups_seen_;
  std::mt19937_64 random_;

  std::uint64_t live_ = 0;  // jobs that were read and have not ended
  std::uint64_t live_bytes_ = 0;
  std::unordered_set<LiveJob*> resting_;
  std::priority_queue<int, std::vector<int>, std::greater<>> free_slots_;
  std::vector<Try*> running_;  // by slot - 1
  int running_count_ = 0;

  Stop stop_ = Stop::kNot;
  Ending ending_ = Ending::kFinished;
  std::optional<Error> failure_;
  class GraceTimer;
  std::unique_ptr<GraceTimer> grace_;

  std::uint64_t ok_ = 0;
  std::uint64_t ok_after_retry_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t timed_out_ = 0;
  std::uint64_t retries_ = 0;
  std::uint64_t resumed_past_ = 0;
  std::uint64_t given_up_ = 0;
  Histogram run_times_;
  Histogram wait_times_;

  // Destroyed first: it waits for what runs.
  std::unique_ptr<GroupExecutor> executor_;
};

}  // namespace keyway::batch
