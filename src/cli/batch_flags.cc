#include "cli/batch_flags.h"

#include <filesystem>

#include <unistd.h>

#include <fmt/format.h>

#include "cli/batch_values.h"

namespace keyway::cli {
namespace {

constexpr int kMostJobs = 10'000;
constexpr int kMostOfAGroup = 1'000'000;
constexpr int kMostRetries = 1'000;

// Collects the first failure, so that each flag is one line below.
class Reading {
 public:
  explicit Reading(const Settings& settings) : settings_(settings) {}

  template <class Value>
  void take(Result<Value> read, Value& into) {
    if (read) {
      into = std::move(*read);
    } else if (failure_.ok()) {
      failure_ = read.error();
    }
  }

  // For a value with a form of its own: its parser says what is wrong with it, Settings where it
  // was.
  template <class Value>
  void take_form(std::string_view option, Result<Value> (*parse)(std::string_view), Value& into) {
    Result<Value> read = parse(settings_.text(option));
    if (read) {
      into = std::move(*read);
    } else if (failure_.ok()) {
      failure_ = settings_.refuse(option, read.error().message);
    }
  }

  const Result<void>& outcome() const { return failure_; }

 private:
  const Settings& settings_;
  Result<void> failure_;
};

// --limit is the standard, unless the file has one and was named by a stronger source.
Result<void> take_limits(const Invocation& call, int limit, BatchFlags& flags) {
  const Settings& settings = call.settings;
  const std::string name = settings.text("limits");
  batch::Limits& limits = flags.options.limits;
  if (!name.empty()) {
    Result<LimitsFile> file = read_limits_file(call.console.folder / name, name);
    if (!file) return file.error();
    limits = file->limits;
    flags.limits_file = std::move(*file);
  }
  const bool file_decides = flags.limits_file && flags.limits_file->has_default_limit &&
                            settings.source("limits") > settings.source("limit");
  if (!file_decides) limits.standard.limit = limit;
  return {};
}

Result<void> check_together(const Invocation& call, const BatchFlags& flags) {
  const Settings& settings = call.settings;
  if (flags.quiet && flags.verbose) {
    return usage_error("--quiet and --verbose: only one of them makes sense", "--verbose");
  }
  const bool reads_stdin = flags.options.jobs_file == "-";
  if (!flags.options.name.empty() && !reads_stdin) {
    return usage_error(
        fmt::format("--name \"{}\": is for jobs from standard input", flags.options.name),
        fmt::format("--state {}.keyway", flags.options.name));
  }
  if (const std::string& report = flags.options.report_file; !report.empty()) {
    // Found out now, not after hours of work.
    const std::filesystem::path folder = (call.console.folder / report).parent_path();
    if (::access(folder.c_str(), W_OK | X_OK) != 0) {
      return settings.refuse("report", "its folder is not there, or cannot be written to");
    }
  }
  const bool name_is_path = flags.options.name.find('/') != std::string::npos;
  if (name_is_path) return settings.refuse("name", "must not contain a slash");
  return {};
}

}  // namespace

Result<BatchFlags> batch_flags(const Invocation& call) {
  const Settings& settings = call.settings;
  BatchFlags flags;
  batch::Options& options = flags.options;
  flags.dry_run = settings.is_on("dry-run");
  flags.quiet = settings.is_on("quiet");
  flags.verbose = settings.is_on("verbose");
  flags.json = settings.is_on("json");
  options.jobs_file = call.arguments.front();
  options.name = settings.text("name");
  options.state_dir = settings.text("state");
  options.report_file = settings.text("report");
  options.fresh = settings.is_on("fresh");

  Reading reading(settings);
  int limit = 1;
  std::string progress;
  std::string output;
  reading.take(settings.number("jobs", 1, kMostJobs), options.jobs);
  reading.take(settings.number("limit", 1, kMostOfAGroup), limit);
  reading.take(settings.number("retries", 0, kMostRetries), options.retries);
  reading.take_form("backoff", parse_backoff, options.backoff);
  reading.take(settings.duration("timeout"), options.timeout);
  reading.take(settings.duration("grace"), options.grace);
  reading.take_form("halt", parse_halt, options.halt);
  reading.take(settings.choice("progress"), progress);
  reading.take(settings.choice("output"), output);
  if (!reading.outcome()) return reading.outcome().error();
  if (auto taken = take_limits(call, limit, flags); !taken) return taken.error();
  if (auto checked = check_together(call, flags); !checked) return checked.error();

  // With --json standard output belongs to the summary, unless output was asked for by name.
  const bool hidden = flags.json && settings.source("output") == Source::kBuiltIn;
  options.output = hidden ? batch::OutputMode::kNone : *parse_output(output);
  flags.progress = progress_mode(progress, flags.quiet, call.console);
  return flags;
}

}  // namespace keyway::cli
