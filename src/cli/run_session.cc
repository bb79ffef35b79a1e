#include "cli/run_session.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "cli/human_text.h"

namespace keyway::cli {
namespace {

constexpr std::size_t kMostFailedKept = 10;

FailedJob failed_job(const LoggedAttempt& attempt) {
  return {.id = attempt.id,
          .exit = attempt.has_exit ? std::optional<int>(attempt.exit) : std::nullopt,
          .signal = attempt.signal,
          .timed_out = attempt.outcome == AttemptOutcome::kTimedOut,
          .refused = attempt.slot == 0};
}

}  // namespace

RunSession::RunSession(const Invocation& call, const CommonFlags& flags, const RunWords& words,
                       ReportTexts report)
    : call_(call),
      flags_(flags),
      words_(words),
      style_{wants_color(call.console, call.color, call.console.err_is_terminal)},
      view_(flags.progress, call.console, style_, words) {
  if (!flags.report_file.empty()) recorder_.emplace(std::move(report));
}

void RunSession::say(std::string_view text) {
  view_.clear();
  print_note(call_.console, text);
}

void RunSession::say_settings() {
  if (!flags_.verbose) return;
  for (const OptionSpec& option : call_.spec.options) {
    const Setting* const setting = call_.settings.find(option.name);
    if (setting == nullptr || option.kind == ValueKind::kSwitch) continue;
    say(fmt::format("{} {} ({})", option.flag(), setting->text, describe_source(option, *setting)));
  }
}

void RunSession::attach(jobs::Watch& watch) {
  // Not slower than once a second, so that no line that is due is late by a whole pace.
  watch.every = std::min<std::chrono::milliseconds>(view_.pace(), std::chrono::seconds(1));
  watch.progress = [this](const jobs::Progress& progress) {
    last_ = progress;
    last_.name = std::filesystem::path(progress.name).filename().string();
    view_.update(last_);
  };
  watch.notice = [this](std::string_view text) {
    if (!flags_.quiet) say(text);
  };
  watch.before_output = [this] { view_.clear(); };
  watch.attempt_ended = [this](const LoggedAttempt& attempt) { attempt_ended(attempt); };
}

void RunSession::attempt_ended(const LoggedAttempt& attempt) {
  if (recorder_) recorder_->add(attempt);
  const bool failed =
      attempt.outcome == AttemptOutcome::kFailed || attempt.outcome == AttemptOutcome::kTimedOut;
  const bool repeated = attempt.outcome == AttemptOutcome::kRetry;
  if (failed && failed_.size() < kMostFailedKept) failed_.push_back(failed_job(attempt));
  if (!flags_.verbose || (!failed && !repeated)) return;
  say(fmt::format("{}: try {}: {}{}", attempt.id, attempt.attempt,
                  how_it_failed(failed_job(attempt)),
                  repeated ? ", will be tried again" : fmt::format(", {}", words_.failed)));
}

// False if it was asked for and could not be written.
bool RunSession::write_report(jobs::Summary& summary) {
  if (!recorder_) return true;
  const Result<void> written = recorder_->write_html(
      flags_.report_file,
      {.places = flags_.jobs,
       .limit_of = [&](std::string_view group) { return jobs::limit_of(flags_.limits, group); },
       .groups = summary.groups,
       .not_run = summary.not_run,
       .resumed_past = summary.resumed_past});
  if (written) {
    summary.report_file = flags_.report_file;
  } else {
    print_error(call_.console, written.error(), call_.color);
  }
  return written.ok();
}

ExitCode RunSession::finish(Result<jobs::Summary> summary) {
  view_.finish(last_);
  if (!summary) {
    print_error(call_.console, summary.error(), call_.color);
    return cli::exit_code(summary.error().code);
  }
  if (summary->failure) print_error(call_.console, *summary->failure, call_.color);
  const bool reported = write_report(*summary);
  if (flags_.json) {
    call_.console.out(summary_json(*summary, failed_, words_) + "\n");
  } else if (!flags_.quiet) {
    call_.console.err(summary_text(*summary, failed_, style_, words_));
  }
  const ExitCode code = cli::exit_code(*summary);
  return code == ExitCode::kOk && !reported ? ExitCode::kResumable : code;
}

}  // namespace keyway::cli
