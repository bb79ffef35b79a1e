#include "batch/batch.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/human_text.h"
#include "base/system_error.h"
#include "batch/batch_runner.h"
#include "batch/job_reader.h"
#include "batch/run_state.h"
#include "jobs/repeating_timer.h"
#include "jobs/run_setup.h"
#include "jobs/signals.h"
#include "process/event_loop.h"
#include "process/system_processes.h"

namespace keyway::batch {

namespace {

struct OpenInput {
  FileDescriptor file;  // not open: standard input
  Input input;
  JobFileFacts facts;
};

// A regular file is checked whole; what can be read only once is checked as it is read.
Result<OpenInput> open_input(const Options& options) {
  OpenInput open_input;
  if (options.jobs_file == "-") {
    open_input.input.descriptor = STDIN_FILENO;
    return open_input;
  }
  const std::string& path = options.jobs_file;
  open_input.file = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!open_input.file.is_open()) {
    const int why = errno;
    return Error{ErrorCode::kInvalidArgument,
                 "cannot open " + path + ": " + errno_text(why) + "\n  try: - for standard input"};
  }
  open_input.input.descriptor = open_input.file.get();
  struct stat status{};
  if (fstat(open_input.file.get(), &status) != 0) return system_error("cannot read " + path, errno);
  if (S_ISDIR(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, path + " is a folder\n  try: the jobs file in it"};
  }
  if (!S_ISREG(status.st_mode)) return open_input;
  Result<JobFileFacts> facts = check_jobs(path, open_input.file.get(), options.limits);
  if (!facts) return facts.error();
  open_input.input.total = facts->jobs;
  open_input.facts = std::move(*facts);
  return open_input;
}

Result<void> validate(const Options& options) {
  const auto wrong = [](std::string what) {
    return Error{ErrorCode::kInvalidArgument, std::move(what)};
  };
  if (options.jobs < 1) return wrong("--jobs must be at least 1");
  if (options.retries < 0 || options.retries > kMostRetries) {
    return wrong("--retries must be from 0 to " + std::to_string(kMostRetries));
  }
  if (options.timeout < Millis(0) || options.grace < Millis(0)) {
    return wrong("--timeout and --grace must not be negative");
  }
  if (options.backoff.first < Millis(0) || options.backoff.most < options.backoff.first) {
    return wrong("--backoff must go from a shorter to a longer time\n  try: --backoff 500ms..30s");
  }
  return {};
}

// As it would have to be typed.
std::string quoted_for_shell(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string command_line(const Job& job) {
  if (job.is_shell) return job.argv.back();
  std::string line;
  for (const std::string& word : job.argv) {
    if (!line.empty()) line += ' ';
    line += quoted_for_shell(word);
  }
  return line;
}

}  // namespace

Result<Summary> run_batch(const Options& options, const Watch& watch) {
  if (const Result<void> valid = validate(options); !valid) return valid.error();
  Result<OpenInput> input = open_input(options);
  if (!input) return input.error();

  std::optional<RunState> state;
  if (const std::string folder = RunState::folder_of(options); !folder.empty()) {
    Result<RunState> opened = RunState::open(folder, options.fresh);
    if (!opened) return opened.error();
    state = std::move(*opened);
    if (input->input.total) {
      const Result<void> matched = state->match(options.jobs_file, input->facts.fingerprints);
      if (!matched) return matched.error();
    }
    if (state->has_earlier_run() && watch.notice) {
      std::string text = "resuming: " + grouped(state->done());
      if (input->input.total) text += " of " + grouped(*input->input.total);
      watch.notice(text + " jobs are done already");
    }
  }
  input->facts.fingerprints = {};

  jobs::allow_descriptors(options.jobs);
  const std::uint64_t seed = jobs::random_seed();
  try {
    EventLoop loop;
    SystemProcesses processes(loop, static_cast<std::size_t>(options.jobs));
    BatchRunner runner(options, input->input, state ? &*state : nullptr, loop, processes,
                       {.loop = &loop,
                        .run_id = jobs::new_run_id(seed),
                        .seed = seed,
                        .notice = watch.notice,
                        .before_output = watch.before_output,
                        .attempt_ended = watch.attempt_ended});
    const jobs::Signals signals(loop, [&](int signal) {
      if (signal != SIGUSR1) {
        runner.signal_received(signal);
      } else if (watch.notice) {
        watch.notice(runner.describe_running());
      }
    });
    const auto show = [&] {
      if (watch.progress) watch.progress(runner.progress());
    };
    Summary summary;
    {
      const jobs::RepeatingTimer timer(loop, watch.every, show);
      summary = runner.run();
    }
    show();
    return summary;
  } catch (const Exception& exception) {
    return exception.error();
  }
}

Result<void> plan_batch(const Options& options,
                        const std::function<void(const PlannedJob&)>& show) {
  if (const Result<void> valid = validate(options); !valid) return valid;
  const Result<OpenInput> input = open_input(options);
  if (!input) return input.error();
  const std::string folder = RunState::folder_of(options);
  std::optional<RunState> state;
  if (!folder.empty() && !options.fresh) {
    Result<RunState> seen = RunState::peek(folder);
    if (!seen) return seen.error();
    state = std::move(*seen);
    const Result<void> same = state->compare(options.jobs_file, input->facts.fingerprints);
    if (input->input.total && !same) return same;
  }
  JobReader reader(options.jobs_file, input->input.descriptor, options.limits);
  while (true) {
    switch (reader.next()) {
      case JobReader::Next::kNeedsInput:
        if (const Result<void> filled = reader.fill(); !filled) return filled;
        break;
      case JobReader::Next::kJob: {
        const Job& job = reader.job();
        show({.seq = reader.seq(),
              .id = job.id,
              .group = job.group,
              .limit = jobs::limit_of(options.limits, job.group),
              .weight = job.weight,
              .command = command_line(job),
              .is_done = state && state->is_done(reader.seq())});
        break;
      }
      case JobReader::Next::kFailed:
        return reader.error();
      case JobReader::Next::kEnd:
        return {};
    }
  }
}

}  // namespace keyway::batch
