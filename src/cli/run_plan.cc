#include "cli/run_plan.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "cli/human_text.h"
#include "cli/json_text.h"
#include "run/run_stream.h"

namespace keyway::cli {
namespace {

constexpr std::size_t kMostLanes = 20;

std::string name_of(const run::RunOptions& options) {
  std::string name = options.sources.front() == "-" ? "standard input" : options.sources.front();
  if (options.sources.size() > 1) name += fmt::format(" and {} more", options.sources.size() - 1);
  return name;
}

// How many records of one key run at once.
int limit_of_key(const run::RunOptions& options, const LanePlan& lane) {
  if (options.order == Order::kPartition) return 1;
  if (options.order == Order::kNone || options.key.empty()) {
    return options.group.empty() ? options.jobs
                                 : std::min(options.jobs, limit_of(options.limits, lane.group));
  }
  const int limit = options.group.empty() ? limit_of(options.limits, lane.key) : 1;
  return std::min(options.jobs, limit);
}

std::string plan_row(const std::string& key, int width, const std::string& limit,
                     const std::string& records) {
  const std::string gap(static_cast<std::size_t>(std::max(width - display_width(key), 0)), ' ');
  return fmt::format("  {}{}  {:>7}  {:>9}\n", key, gap, limit, records);
}

}  // namespace

Result<RunPlan> plan_run(const run::RunOptions& options,
                         const std::function<void(std::string_view line)>& tell) {
  RunPlan plan{.name = name_of(options), .has_keys = !options.key.empty(), .at_once = options.jobs};
  std::unordered_map<std::string, LanePlan> lanes;
  const Result<run::Plan> read = run::plan_stream(options, [&](const run::PlannedRecord& record) {
    if (!record.defect.empty()) {
      ++plan.dead;
      tell(fmt::format("{}  dead: {}\n", record.id, printable(record.defect)));
      return;
    }
    const std::string key(record.key.value_or(std::string_view()));
    const std::string group(record.group.value_or(key));
    LanePlan& lane = lanes[key];
    if (lane.records++ == 0) {
      lane.key = key;
      lane.group = group;
    }
    std::string line = record.id;
    if (plan.has_keys) line += "  key " + printable(key);
    if (!options.group.empty()) line += "  group " + printable(group);
    tell(line + "\n");
  });
  if (!read) return read.error();
  plan.records = read->records;
  plan.done = read->done;
  plan.keys = plan.has_keys ? lanes.size() : 0;
  for (auto& [key, lane] : lanes) plan.lanes.push_back(std::move(lane));
  std::ranges::sort(plan.lanes, [](const LanePlan& a, const LanePlan& b) {
    return a.records != b.records ? a.records > b.records : a.key < b.key;
  });
  plan.lanes.resize(std::min(plan.lanes.size(), kMostLanes));
  for (LanePlan& lane : plan.lanes) lane.limit = limit_of_key(options, lane);
  return plan;
}

std::string plan_text(const RunPlan& plan) {
  std::string text = fmt::format("{}: {}", printable(plan.name), counted(plan.records, "record"));
  if (plan.has_keys) text += fmt::format(" with {}", counted(plan.keys, "key"));
  text += fmt::format(", {} at once", grouped(static_cast<unsigned>(plan.at_once)));
  if (plan.dead > 0) text += fmt::format(", {} dead", grouped(plan.dead));
  if (plan.done > 0) text += fmt::format(", {} done already", grouped(plan.done));
  text += "; nothing was run\n";
  if (!plan.has_keys || plan.lanes.empty()) return text;
  int width = display_width("key");
  for (const LanePlan& lane : plan.lanes)
    width = std::max(width, display_width(printable(lane.key)));
  text += plan_row("key", width, "at once", "records");
  for (const LanePlan& lane : plan.lanes) {
    text += plan_row(printable(lane.key), width, grouped(static_cast<unsigned>(lane.limit)),
                     grouped(lane.records));
  }
  if (plan.keys > plan.lanes.size()) {
    text += fmt::format("  and {} more\n", grouped(plan.keys - plan.lanes.size()));
  }
  return text;
}

std::string plan_json(const RunPlan& plan) {
  std::vector<JsonObject> lanes;
  for (const LanePlan& lane : plan.lanes) {
    lanes.emplace_back()
        .add("key", lane.key)
        .add("group", lane.group)
        .add("limit", lane.limit)
        .add("records", lane.records);
  }
  JsonObject object;
  object.add("name", plan.name)
      .add("records", plan.records)
      .add("dead", plan.dead)
      .add("done", plan.done)
      .add("keys", plan.keys)
      .add("at_once", plan.at_once)
      .add("longest", lanes);
  return object.text();
}

}  // namespace keyway::cli
