#include "cli/summary_text.h"

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "cli/exit_code.h"
#include "cli/human_text.h"
#include "cli/json_text.h"

namespace keyway::cli {
namespace {

constexpr std::size_t kMostFailedNamed = 5;

std::string opening(const jobs::Summary& summary, const Style& style) {
  switch (summary.ending) {
    case jobs::Ending::kFinished:
      return "done in";
    case jobs::Ending::kHalted:
      return style.red("halted") + " after";
    case jobs::Ending::kInterrupted:
      return style.yellow("interrupted") + " after";
    case jobs::Ending::kTerminated:
      return style.yellow("terminated") + " after";
    case jobs::Ending::kStoreFailed:
    case jobs::Ending::kInputFailed:
    case jobs::Ending::kHandlerFailed:
    case jobs::Ending::kOutputClosed:
      return style.red("stopped") + " after";
  }
  return "ended after";
}

const char* ending_name(jobs::Ending ending) {
  switch (ending) {
    case jobs::Ending::kFinished:
      return "finished";
    case jobs::Ending::kHalted:
      return "halted";
    case jobs::Ending::kInterrupted:
      return "interrupted";
    case jobs::Ending::kTerminated:
      return "terminated";
    case jobs::Ending::kStoreFailed:
      return "store_failed";
    case jobs::Ending::kInputFailed:
      return "input_failed";
    case jobs::Ending::kHandlerFailed:
      return "handler_failed";
    case jobs::Ending::kOutputClosed:
      return "output_closed";
  }
  return "finished";
}

// Known to the millisecond only.
std::string elapsed_text(std::chrono::milliseconds elapsed) {
  return elapsed.count() == 0 ? "less than 1 ms" : human_duration(elapsed);
}

double per_second(const jobs::Summary& summary) {
  if (summary.elapsed.count() <= 0) return 0;
  return static_cast<double>(summary.jobs) * 1000.0 / static_cast<double>(summary.elapsed.count());
}

std::string outcomes(const jobs::Summary& summary, const Style& style, const RunWords& words) {
  std::string line = fmt::format("  ok {}", grouped(summary.ok));
  if (summary.ok_after_retry > 0) {
    line += fmt::format(" ({} after retry)", grouped(summary.ok_after_retry));
  }
  std::string failed = fmt::format("{} {}", words.failed, grouped(summary.failed));
  if (summary.timed_out > 0) failed += fmt::format(" ({} timed out)", grouped(summary.timed_out));
  line += "  " + (summary.failed == 0 ? failed : style.red(failed));
  if (summary.left_out > 0) line += fmt::format("  skipped {}", grouped(summary.left_out));
  if (summary.duplicates > 0) {
    line += fmt::format("  handled before {}", grouped(summary.duplicates));
  }
  if (summary.not_run > 0) {
    line += "  " + style.yellow(fmt::format("not run {}", grouped(summary.not_run)));
  }
  return line + fmt::format("  resumed-past {}\n", grouped(summary.resumed_past));
}

std::string times(const jobs::Summary& summary, const RunWords& words) {
  const jobs::Quantiles& running = summary.running;
  const jobs::Quantiles& waiting = summary.waiting;
  return fmt::format("  {}  p50 {}  p95 {}  p99 {}  max {}\n  waiting  p50 {}  p99 {}\n",
                     words.running, human_duration(running.p50), human_duration(running.p95),
                     human_duration(running.p99), human_duration(running.max),
                     human_duration(waiting.p50), human_duration(waiting.p99));
}

// A state folder is named by itself.
std::string replayed_from(const std::string& dead_file) {
  constexpr std::string_view kInFolder = "/dead.jsonl";
  const bool in_folder = dead_file.ends_with(kInFolder);
  return in_folder ? dead_file.substr(0, dead_file.size() - kInFolder.size()) : dead_file;
}

std::string failures(const jobs::Summary& summary, std::span<const FailedJob> failed) {
  std::string line = "  failed: ";
  const std::size_t named = std::min(failed.size(), kMostFailedNamed);
  for (std::size_t at = 0; at < named; ++at) {
    if (at > 0) line += ", ";
    line += fmt::format("{} ({})", printable(failed[at].id), how_it_failed(failed[at]));
  }
  if (summary.failed > named) line += fmt::format(" and {} more", grouped(summary.failed - named));
  return line + "\n";
}

JsonObject in_millis(const jobs::Quantiles& quantiles) {
  const auto millis = [](std::chrono::microseconds time) {
    return static_cast<double>(time.count()) / 1000.0;
  };
  JsonObject object;
  object.add("p50", millis(quantiles.p50))
      .add("p95", millis(quantiles.p95))
      .add("p99", millis(quantiles.p99))
      .add("max", millis(quantiles.max));
  return object;
}

}  // namespace

std::string how_it_failed(const FailedJob& job) {
  if (job.refused) return "queue full";
  if (job.timed_out) return "timed out";
  if (job.signal == 0) return job.exit ? fmt::format("exit {}", *job.exit) : "failed";
  const char* const name = ::sigabbrev_np(job.signal);
  return name == nullptr ? fmt::format("signal {}", job.signal) : fmt::format("SIG{}", name);
}

std::string summary_text(const jobs::Summary& summary, std::span<const FailedJob> failed,
                         const Style& style, const RunWords& words) {
  std::string text = fmt::format("{} {}: {}", opening(summary, style),
                                 elapsed_text(summary.elapsed), counted(summary.jobs, words.item));
  if (!words.is_stream || summary.groups > 0) text += ", " + counted(summary.groups, words.group);
  if (summary.jobs > 0) text += ", " + human_rate(per_second(summary));
  text += "\n" + outcomes(summary, style, words);
  if (summary.jobs > 0) text += times(summary, words);
  if (!summary.bound_by.empty()) {
    text += fmt::format("  bound by {} {}: {}{}, {} of {}{}\n", words.group,
                        printable(summary.bound_by), counted(summary.bound_jobs, words.item),
                        words.is_stream ? " in a row" : "", human_duration(summary.bound_time),
                        human_duration(summary.elapsed), words.is_stream ? "" : " at its limit");
  }
  if (!words.is_stream && !failed.empty()) text += failures(summary, failed);
  if (!summary.dead_file.empty()) {
    text += fmt::format("  dead letters: {}  (keyway dead replay {})\n",
                        printable(summary.dead_file), printable(replayed_from(summary.dead_file)));
  } else if (!words.is_stream && !summary.joblog_file.empty()) {
    text += fmt::format("  joblog: {}\n", printable(summary.joblog_file));
  }
  if (!summary.report_file.empty()) {
    text += fmt::format("  report: {}\n", printable(summary.report_file));
  }
  if (summary.not_run > 0 && !summary.joblog_file.empty()) {
    text += "  the same command again runs what is left\n";
  }
  return text;
}

std::string summary_json(const jobs::Summary& summary, std::span<const FailedJob> failed,
                         const RunWords& words) {
  JsonObject object;
  object.add("ending", ending_name(summary.ending))
      .add("exit_code", static_cast<int>(cli::exit_code(summary)))
      .add(words.items, summary.jobs)
      .add(words.groups, summary.groups)
      .add("ok", summary.ok)
      .add("ok_after_retry", summary.ok_after_retry)
      .add(words.failed, summary.failed)
      .add("timed_out", summary.timed_out)
      .add("not_run", summary.not_run)
      .add("resumed_past", summary.resumed_past)
      .add("elapsed_ms", summary.elapsed.count())
      .add("per_second", per_second(summary))
      .add(fmt::format("{}_ms", words.running), in_millis(summary.running))
      .add("waiting_ms", in_millis(summary.waiting));
  if (summary.bound_by.empty()) {
    object.add_null("bound_by");
  } else {
    JsonObject bound;
    bound.add(words.group, summary.bound_by)
        .add(words.items, summary.bound_jobs)
        .add("time_ms", summary.bound_time.count());
    object.add("bound_by", bound);
  }
  if (words.is_stream) {
    object.add("skipped", summary.left_out).add("handled_before", summary.duplicates);
    if (summary.dead_file.empty()) {
      object.add_null("dead_letters");
    } else {
      object.add("dead_letters", summary.dead_file);
    }
  } else {
    std::vector<JsonObject> jobs;
    for (const FailedJob& job : failed) {
      jobs.emplace_back().add("id", job.id).add("why", how_it_failed(job));
    }
    object.add("first_failed", jobs);
  }
  object.add("joblog", summary.joblog_file);
  if (summary.report_file.empty()) {
    object.add_null("report");
  } else {
    object.add("report", summary.report_file);
  }
  return object.text();
}

}  // namespace keyway::cli
