// How many of a group run at once: a limits file, with --limit as its standard.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace keyway::jobs {

// Of one group; what is not set comes from Limits::standard.
struct GroupLimit {
  std::optional<int> limit;          // how many run at once
  std::optional<int> max_in_flight;  // at most, whatever `limit` says
  std::optional<int> queue;          // how many may wait; a job beyond is refused and fails
};

struct Limits {
  std::map<std::string, GroupLimit> groups;
  GroupLimit standard{.limit = 1, .max_in_flight = {}, .queue = {}};
};

// How many of a group may run at once, whatever --jobs says.
int limit_of(const Limits& limits, std::string_view group);

}  // namespace keyway::jobs
