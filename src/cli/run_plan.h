// What a run would handle, key by key: for --dry-run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "keyway/error.h"
#include "run/run_options.h"

namespace keyway::cli {

// All records of one key; without --key, all there are.
struct LanePlan {
  std::string key;
  std::string group;  // of its first record
  int limit = 1;      // how many of it run at once
  std::uint64_t records = 0;
};

struct RunPlan {
  std::string name;
  bool has_keys = false;
  int at_once = 1;
  std::uint64_t records = 0;
  std::uint64_t dead = 0;  // would become dead letters untried
  std::uint64_t done = 0;  // in an earlier run
  std::uint64_t keys = 0;
  std::vector<LanePlan> lanes;  // the longest, longest first
};

// Reads all records and handles none; tells each in a line as it is read.
Result<RunPlan> plan_run(const run::RunOptions& options,
                         const std::function<void(std::string_view line)>& tell);

std::string plan_text(const RunPlan& plan);
std::string plan_json(const RunPlan& plan);  // one object, without a newline

}  // namespace keyway::cli
