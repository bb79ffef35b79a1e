// The file of --limits: how many jobs of each group run at once.
//
//   [default]                # of every group that is not named below
//   limit = 2                # how many run at once
//   max_in_flight = 8        # never more than this, whatever `limit` says
//   queue = 1000             # how many may wait; a job beyond is refused
//
//   [groups]
//   vip = 4
//   db = { limit = 2, queue = 100 }
//
// Every number is 1 or more. What is wrong is an error with file, line, column and a next step.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "jobs/limits.h"
#include "keyway/error.h"

namespace keyway::cli {

struct LimitsFile {
  std::string name;  // as the user gave it
  jobs::Limits limits;
  bool has_default_limit = false;
  std::map<std::string, std::string> places;  // of each group: "limits.toml:7:1"
};

Result<LimitsFile> read_limits_file(const std::filesystem::path& path, const std::string& name);

// A warning for each group of the file that no job has: the file may serve several lists of jobs,
// so it is no error, but the name may be misspelt.
std::vector<std::string> unused_groups(const LimitsFile& file, const std::set<std::string>& used);

}  // namespace keyway::cli
