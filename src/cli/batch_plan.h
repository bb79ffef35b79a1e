// What a batch would run, group by group: for --dry-run, and to find limits that nobody has.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "batch/batch_options.h"
#include "keyway/error.h"

namespace keyway::cli {

struct GroupPlan {
  std::string group;
  int limit = 1;  // how many run at once, --jobs included
  std::uint64_t jobs = 0;
};

struct BatchPlan {
  std::string name;  // of the jobs file
  int at_once = 1;
  std::uint64_t jobs = 0;
  std::vector<GroupPlan> groups;  // in the order they first appear

  std::set<std::string> group_names() const;
};

// Reads all jobs, and runs none. Fails as a run would: with file, line and a next step.
Result<BatchPlan> plan_batch(const batch::Options& options);

std::string plan_text(const BatchPlan& plan);
std::string plan_json(const BatchPlan& plan);  // one object, without a newline

}  // namespace keyway::cli
