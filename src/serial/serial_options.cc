#include "keyway/serial_options.h"

#include <string>

namespace keyway {

const char* to_string(OnFull on_full) {
  return on_full == OnFull::kFailFast ? "fail_fast" : "caller_runs";
}

const char* to_string(Routing routing) {
  return routing == Routing::kPerKey ? "per_key" : "sticky";
}

Result<void> SerialOptions::validate() const {
  const auto at_least = [](const char* name, int value, int least) -> Result<void> {
    if (value >= least) return {};
    return Error{ErrorCode::kInvalidArgument, std::string(name) + " is " + std::to_string(value) +
                                                  "; it must be at least " + std::to_string(least)};
  };
  if (Result<void> valid = at_least("workers", workers, 1); !valid) return valid;
  if (Result<void> valid = at_least("queue_capacity", queue_capacity, 0); !valid) return valid;
  // With 0, all work would be rejected.
  return at_least("total_capacity", total_capacity, on_full == OnFull::kCallerRuns ? 0 : 1);
}

}  // namespace keyway
