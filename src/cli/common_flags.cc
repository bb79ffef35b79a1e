#include "cli/common_flags.h"

#include <filesystem>

#include <unistd.h>

#include "cli/common_values.h"

namespace keyway::cli {
namespace {

constexpr int kMostJobs = 10'000;
constexpr int kMostOfAGroup = 1'000'000;
constexpr int kMostRetries = 1'000;

// --limit is the standard, unless the file has one and was named by a stronger source.
Result<void> take_limits(const Invocation& call, int limit, CommonFlags& flags) {
  const Settings& settings = call.settings;
  const std::string name = settings.text("limits");
  jobs::Limits& limits = flags.limits;
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

Result<void> check_together(const Invocation& call, const CommonFlags& flags) {
  const Settings& settings = call.settings;
  if (flags.quiet && flags.verbose) {
    return usage_error("--quiet and --verbose: only one of them makes sense", "--verbose");
  }
  if (const std::string& report = flags.report_file; !report.empty()) {
    // Found out now, not after hours of work.
    const std::filesystem::path folder = (call.console.folder / report).parent_path();
    if (::access(folder.c_str(), W_OK | X_OK) != 0) {
      return settings.refuse("report", "its folder is not there, or cannot be written to");
    }
  }
  const bool name_is_path = flags.name.find('/') != std::string::npos;
  if (name_is_path) return settings.refuse("name", "must not contain a slash");
  return {};
}

}  // namespace

Result<CommonFlags> common_flags(const Invocation& call) {
  const Settings& settings = call.settings;
  CommonFlags flags;
  flags.dry_run = settings.is_on("dry-run");
  flags.quiet = settings.is_on("quiet");
  flags.verbose = settings.is_on("verbose");
  flags.json = settings.is_on("json");
  flags.name = settings.text("name");
  flags.state_dir = settings.text("state");
  flags.report_file = settings.text("report");
  flags.fresh = settings.is_on("fresh");

  Reading reading(settings);
  int limit = 1;
  std::string progress;
  reading.take(settings.number("jobs", 1, kMostJobs), flags.jobs);
  reading.take(settings.number("limit", 1, kMostOfAGroup), limit);
  reading.take(settings.number("retries", 0, kMostRetries), flags.retries);
  reading.take_form("backoff", parse_backoff, flags.backoff);
  reading.take(settings.duration("timeout"), flags.timeout);
  reading.take(settings.duration("grace"), flags.grace);
  reading.take_form("halt", parse_halt, flags.halt);
  reading.take(settings.choice("progress"), progress);
  if (!reading.outcome()) return reading.outcome().error();
  if (auto taken = take_limits(call, limit, flags); !taken) return taken.error();
  if (auto checked = check_together(call, flags); !checked) return checked.error();
  flags.progress = progress_mode(progress, flags.quiet, call.console);
  return flags;
}

}  // namespace keyway::cli
