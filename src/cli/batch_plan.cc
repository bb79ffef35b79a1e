#include "cli/batch_plan.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include <fcntl.h>

#include <fmt/format.h>

#include "base/file_descriptor.h"
#include "batch/batch.h"
#include "batch/job_reader.h"
#include "cli/human_text.h"
#include "cli/json_text.h"

namespace keyway::cli {
namespace {

// How many names of groups are kept to suggest one from.
constexpr std::size_t kMostNames = 10'000;

// Both columns of numbers, right-aligned.
std::string plan_row(const std::string& group, int width, const std::string& limit,
                     const std::string& jobs) {
  const std::string gap(static_cast<std::size_t>(width - display_width(group)), ' ');
  return fmt::format("  {}{}  {:>7}  {:>9}\n", group, gap, limit, jobs);
}

// Names of groups that have jobs, until all of `wanted` are among them.
std::set<std::string> groups_with_jobs(const batch::Options& options,
                                       const std::map<std::string, std::string>& wanted) {
  std::set<std::string> seen;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.jobs_file, ignored)) return seen;
  const FileDescriptor file(::open(options.jobs_file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return seen;
  batch::JobReader reader(options.jobs_file, file.get(), options.limits,
                          batch::JobReader::Ids::kTrusted);
  std::size_t missing = wanted.size();
  while (missing > 0) {
    switch (reader.next()) {
      case batch::JobReader::Next::kJob: {
        const std::string& group = reader.job().group;
        const bool is_wanted = wanted.contains(group);
        if (!is_wanted && seen.size() >= kMostNames) break;
        if (seen.insert(group).second && is_wanted) --missing;
        break;
      }
      case batch::JobReader::Next::kNeedsInput:
        if (!reader.fill()) return {};
        break;
      case batch::JobReader::Next::kEnd:
        return seen;
      case batch::JobReader::Next::kFailed:
        return {};
    }
  }
  return seen;
}

}  // namespace

Result<BatchPlan> plan_batch(const batch::Options& options,
                             const std::function<void(std::string_view line)>& tell) {
  BatchPlan plan{.name = options.jobs_file == "-" ? "standard input" : options.jobs_file,
                 .at_once = options.jobs};
  std::unordered_map<std::string, std::size_t> places;
  const Result<void> read = batch::plan_batch(options, [&](const batch::PlannedJob& job) {
    const auto [place, is_new] = places.try_emplace(job.group, plan.groups.size());
    if (is_new) plan.groups.push_back({job.group, std::min(job.limit, options.jobs), 0});
    ++plan.groups[place->second].jobs;
    ++plan.jobs;
    if (job.is_done) ++plan.done;
    tell(fmt::format("{}  {}  {}{}\n", printable(job.group), printable(job.id),
                     printable(job.command), job.is_done ? "  (done)" : ""));
  });
  if (!read) return read.error();
  return plan;
}

std::string plan_text(const BatchPlan& plan) {
  const std::string done =
      plan.done == 0 ? "" : fmt::format(", {} done already", grouped(plan.done));
  std::string text =
      fmt::format("{}: {} in {}, {} at once{}; nothing was run\n", printable(plan.name),
                  counted(plan.jobs, "job"), counted(plan.groups.size(), "group"),
                  grouped(static_cast<unsigned>(plan.at_once)), done);
  int width = display_width("group");
  for (const GroupPlan& each : plan.groups) {
    width = std::max(width, display_width(printable(each.group)));
  }
  if (!plan.groups.empty()) text += plan_row("group", width, "at once", "jobs");
  for (const GroupPlan& each : plan.groups) {
    text += plan_row(printable(each.group), width, grouped(static_cast<unsigned>(each.limit)),
                     grouped(each.jobs));
  }
  return text;
}

std::string plan_json(const BatchPlan& plan) {
  std::vector<JsonObject> groups;
  for (const GroupPlan& each : plan.groups) {
    groups.emplace_back().add("group", each.group).add("limit", each.limit).add("jobs", each.jobs);
  }
  JsonObject object;
  object.add("name", plan.name)
      .add("jobs", plan.jobs)
      .add("done", plan.done)
      .add("at_once", plan.at_once)
      .add("groups", groups);
  return object.text();
}

std::vector<std::string> warn_of_unused_groups(const batch::Options& options,
                                               const LimitsFile& file) {
  const std::set<std::string> seen = groups_with_jobs(options, file.places);
  // Nothing was read, or nothing could be: the run will say so.
  if (seen.empty()) return {};
  return unused_groups(file, seen);
}

}  // namespace keyway::cli
