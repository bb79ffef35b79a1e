#include "jobs/limits.h"

#include <algorithm>

namespace keyway::jobs {

int limit_of(const Limits& limits, std::string_view group) {
  const auto found = limits.groups.find(std::string(group));
  const GroupLimit none;
  const GroupLimit& own = found == limits.groups.end() ? none : found->second;
  const int running = own.limit.value_or(limits.standard.limit.value_or(1));
  const auto in_flight = own.max_in_flight ? own.max_in_flight : limits.standard.max_in_flight;
  return std::min(running, in_flight.value_or(running));
}

}  // namespace keyway::jobs
