#include "cli/batch_plan.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include <fcntl.h>

#include <fmt/format.h>

#include "base/file_descriptor.h"
#include "batch/job_reader.h"
#include "cli/console.h"
#include "cli/human_text.h"
#include "cli/json_text.h"

namespace keyway::cli {
namespace {

Error cannot_read(const std::string& file, int why) {
  return usage_error(fmt::format("{}: cannot be read: {}", file, std::strerror(why)),
                     fmt::format("ls -l {}", file));
}

}  // namespace

std::set<std::string> BatchPlan::group_names() const {
  std::set<std::string> names;
  for (const GroupPlan& each : groups) names.insert(each.group);
  return names;
}

Result<BatchPlan> plan_batch(const batch::Options& options) {
  const bool reads_stdin = options.jobs_file == "-";
  FileDescriptor file;
  if (!reads_stdin) {
    file = FileDescriptor(::open(options.jobs_file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return cannot_read(options.jobs_file, errno);
  }
  BatchPlan plan{.name = reads_stdin ? "standard input" : options.jobs_file,
                 .at_once = options.jobs};
  std::unordered_map<std::string, std::size_t> places;
  batch::JobReader reader(options.jobs_file, reads_stdin ? STDIN_FILENO : file.get(),
                          options.limits);
  while (true) {
    switch (reader.next()) {
      case batch::JobReader::Next::kJob: {
        const std::string& group = reader.job().group;
        const auto [place, is_new] = places.try_emplace(group, plan.groups.size());
        if (is_new) {
          const int limit = std::min(batch::limit_of(options.limits, group), options.jobs);
          plan.groups.push_back({group, limit, 0});
        }
        ++plan.groups[place->second].jobs;
        ++plan.jobs;
        break;
      }
      case batch::JobReader::Next::kNeedsInput:
        if (auto filled = reader.fill(); !filled) return filled.error();
        break;
      case batch::JobReader::Next::kEnd:
        return plan;
      case batch::JobReader::Next::kFailed:
        return reader.error();
    }
  }
}

std::string plan_text(const BatchPlan& plan) {
  std::string text = fmt::format("{}: {} in {}, {} at once\n", printable(plan.name),
                                 counted(plan.jobs, "job"), counted(plan.groups.size(), "group"),
                                 grouped(static_cast<unsigned>(plan.at_once)));
  int width = display_width("group");
  for (const GroupPlan& each : plan.groups) {
    width = std::max(width, display_width(printable(each.group)));
  }
  const auto row = [&](const std::string& group, const std::string& limit,
                       const std::string& jobs) {
    const std::string gap(static_cast<std::size_t>(width - display_width(group)), ' ');
    return fmt::format("  {}{}  {:>7}  {:>9}\n", group, gap, limit, jobs);
  };
  if (!plan.groups.empty()) text += row("group", "at once", "jobs");
  for (const GroupPlan& each : plan.groups) {
    text +=
        row(printable(each.group), grouped(static_cast<unsigned>(each.limit)), grouped(each.jobs));
  }
  return text + "nothing was run\n";
}

std::string plan_json(const BatchPlan& plan) {
  std::vector<JsonObject> groups;
  for (const GroupPlan& each : plan.groups) {
    groups.emplace_back().add("group", each.group).add("limit", each.limit).add("jobs", each.jobs);
  }
  JsonObject object;
  object.add("name", plan.name)
      .add("jobs", plan.jobs)
      .add("at_once", plan.at_once)
      .add("groups", groups);
  return object.text();
}

}  // namespace keyway::cli
