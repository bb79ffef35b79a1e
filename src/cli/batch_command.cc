// `keyway batch`: from flags to the engine, and from what it tells to the screen.
#include <filesystem>

#include <fmt/format.h>

#include "batch/batch.h"
#include "batch/job_reader.h"
#include "cli/batch_flags.h"
#include "cli/batch_plan.h"
#include "cli/batch_spec.h"
#include "cli/commands.h"
#include "cli/human_text.h"
#include "cli/progress_view.h"
#include "cli/summary_text.h"
#include "report/run_recorder.h"

namespace keyway::cli {
namespace {

constexpr std::size_t kMostFailedKept = 10;

FailedJob failed_job(const LoggedAttempt& attempt) {
  return {.id = attempt.id,
          .exit = attempt.exit,
          .signal = attempt.signal,
          .timed_out = attempt.outcome == AttemptOutcome::kTimedOut,
          .refused = attempt.slot == 0};
}

// One run, and everything that is said about it.
class Session {
 public:
  Session(const Invocation& call, const BatchFlags& flags)
      : call_(call),
        flags_(flags),
        style_{wants_color(call.console, call.color, call.console.err_is_terminal)},
        view_(flags.common.progress, call.console, style_) {
    if (!flags.options.report_file.empty()) {
      recorder_.emplace(
          ReportTexts{.title = flags.options.jobs_file == "-" ? "jobs" : flags.options.jobs_file});
    }
  }

  ExitCode run() {
    if (flags_.common.verbose) say_settings();
    if (flags_.common.limits_file && !flags_.common.quiet) {
      for (const std::string& warning :
           warn_of_unused_groups(flags_.options, *flags_.common.limits_file)) {
        print_warning(call_.console, warning, call_.color);
      }
    }
    Result<jobs::Summary> summary = batch::run_batch(flags_.options, watch());
    view_.finish(last_);
    if (!summary) {
      print_error(call_.console, summary.error(), call_.color);
      return cli::exit_code(summary.error().code);
    }
    if (summary->failure) print_error(call_.console, *summary->failure, call_.color);
    const bool reported = write_report(*summary);
    say_summary(*summary);
    const ExitCode code = cli::exit_code(*summary);
    return code == ExitCode::kOk && !reported ? ExitCode::kResumable : code;
  }

 private:
  jobs::Watch watch() {
    jobs::Watch watch;
    // Not slower than once a second, so that no line that is due is late by a whole pace.
    watch.every = std::min<std::chrono::milliseconds>(view_.pace(), std::chrono::seconds(1));
    watch.progress = [this](const jobs::Progress& progress) {
      last_ = progress;
      last_.name = std::filesystem::path(progress.name).filename().string();
      view_.update(last_);
    };
    watch.notice = [this](std::string_view text) {
      if (!flags_.common.quiet) say(text);
    };
    watch.before_output = [this] { view_.clear(); };
    watch.attempt_ended = [this](const LoggedAttempt& attempt) { attempt_ended(attempt); };
    return watch;
  }

  void attempt_ended(const LoggedAttempt& attempt) {
    if (recorder_) recorder_->add(attempt);
    const bool failed =
        attempt.outcome == AttemptOutcome::kFailed || attempt.outcome == AttemptOutcome::kTimedOut;
    const bool repeated = attempt.outcome == AttemptOutcome::kRetry;
    if (failed && failed_.size() < kMostFailedKept) failed_.push_back(failed_job(attempt));
    if (!flags_.common.verbose || (!failed && !repeated)) return;
    say(fmt::format("{}: try {}: {}{}", attempt.id, attempt.attempt,
                    how_it_failed(failed_job(attempt)),
                    repeated ? ", will be tried again" : ", failed"));
  }

  // False if it was asked for and could not be written.
  bool write_report(jobs::Summary& summary) {
    const batch::Options& options = flags_.options;
    if (!recorder_) return true;
    const Result<void> written = recorder_->write_html(
        options.report_file,
        {.places = options.jobs,
         .limit_of = [&](std::string_view group) { return jobs::limit_of(options.limits, group); },
         .groups = summary.groups,
         .not_run = summary.not_run,
         .resumed_past = summary.resumed_past});
    if (written) {
      summary.report_file = options.report_file;
    } else {
      print_error(call_.console, written.error(), call_.color);
    }
    return written.ok();
  }

  void say_settings() {
    for (const OptionSpec& option : call_.spec.options) {
      const Setting* const setting = call_.settings.find(option.name);
      if (setting == nullptr || option.kind == ValueKind::kSwitch) continue;
      say(fmt::format("{} {} ({})", option.flag(), setting->text,
                      describe_source(option, *setting)));
    }
  }

  void say_summary(const jobs::Summary& summary) {
    if (flags_.common.json) {
      call_.console.out(summary_json(summary, failed_) + "\n");
    } else if (!flags_.common.quiet) {
      call_.console.err(summary_text(summary, failed_, style_));
    }
  }

  void say(std::string_view text) {
    view_.clear();
    print_note(call_.console, text);
  }

  const Invocation& call_;
  const BatchFlags& flags_;
  const Style style_;
  ProgressView view_;
  jobs::Progress last_;
  std::vector<FailedJob> failed_;
  std::optional<RunRecorder> recorder_;  // if a report is wanted
};

ExitCode dry_run(const Invocation& call, const BatchFlags& flags) {
  const bool tells_jobs = !flags.common.json && !flags.common.quiet;
  const Result<BatchPlan> plan = plan_batch(flags.options, [&](std::string_view line) {
    if (tells_jobs) call.console.out(line);
  });
  if (!plan) {
    print_error(call.console, plan.error(), call.color);
    return cli::exit_code(plan.error().code);
  }
  call.console.out(flags.common.json ? plan_json(*plan) + "\n" : plan_text(*plan));
  return ExitCode::kOk;
}

ExitCode run(const Invocation& call) {
  const Result<BatchFlags> flags = batch_flags(call);
  if (!flags) {
    print_error(call.console, flags.error(), call.color);
    return cli::exit_code(flags.error().code);
  }
  return flags->common.dry_run ? dry_run(call, *flags) : Session(call, *flags).run();
}

}  // namespace

Command batch_command() { return {.spec = batch_spec(), .run = run}; }

}  // namespace keyway::cli
