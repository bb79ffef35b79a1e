// What a batch would run, group by group: for --dry-run, and to find limits that nobody has.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "batch/batch_options.h"
#include "cli/limits_file.h"
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
  std::uint64_t done = 0;         // in an earlier run
  std::vector<GroupPlan> groups;  // in the order they first appear
};

// Reads all jobs and runs none; tells each in a line as it is read. Fails as a run would: with
// file, line and a next step.
Result<BatchPlan> plan_batch(const batch::Options& options,
                             const std::function<void(std::string_view line)>& tell);

std::string plan_text(const BatchPlan& plan);
std::string plan_json(const BatchPlan& plan);  // one object, without a newline

// Warnings for the groups of the limits file that no job has. Reads the jobs file until all of them
// were seen; what can be read only once is not looked at, and what is wrong with it is left to the
// run.
std::vector<std::string> warn_of_unused_groups(const batch::Options& options,
                                               const LimitsFile& file);

}  // namespace keyway::cli
