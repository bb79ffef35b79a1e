#include "keyway/group_policy.h"

#include <algorithm>
#include <string>

#include "base/quoted.h"
#include "keyway/group_task.h"
#include "lanes/lane_table.h"

namespace keyway {
namespace {

constexpr std::size_t kMaxNameBytes = 65535;

Error out_of_range(const std::string& what, int value, int least) {
  return {ErrorCode::kInvalidArgument,
          what + " is " + std::to_string(value) + "; it must be at least " + std::to_string(least)};
}

// Above that, weights would be rounded too much: see GateLine.
constexpr int kMaxWeight = 1'000;

}  // namespace

Result<void> detail::validate_limits(const GroupLimits& limits, const std::string& of) {
  if (limits.max_concurrency.value_or(1) < 1) {
    return out_of_range("max_concurrency" + of, *limits.max_concurrency, 1);
  }
  if (limits.max_in_flight.value_or(1) < 1) {
    return out_of_range("max_in_flight" + of, *limits.max_in_flight, 1);
  }
  if (limits.queue_threshold.value_or(0) < 0) {
    return out_of_range("queue_threshold" + of, *limits.queue_threshold, 0);
  }
  if (limits.weight.value_or(1) < 1) return out_of_range("weight" + of, *limits.weight, 1);
  if (limits.weight.value_or(1) > kMaxWeight) {
    return Error{ErrorCode::kInvalidArgument,
                 "weight" + of + " is " + std::to_string(*limits.weight) + "; it must be at most " +
                     std::to_string(kMaxWeight)};
  }
  if (limits.guaranteed.value_or(0) < 0) {
    return out_of_range("guaranteed" + of, *limits.guaranteed, 0);
  }
  if (limits.rate && !(limits.rate->per_second > 0 && limits.rate->per_second <= 9e9)) {
    return Error{ErrorCode::kInvalidArgument, "rate.per_second" + of + " is " +
                                                  std::to_string(limits.rate->per_second) +
                                                  "; it must be above 0 and at most 9e9"};
  }
  if (limits.rate && limits.rate->burst < 1) {
    return out_of_range("rate.burst" + of, limits.rate->burst, 1);
  }
  if (limits.adaptive && limits.adaptive->floor < 1) {
    return out_of_range("adaptive.floor" + of, limits.adaptive->floor, 1);
  }
  if (limits.adaptive && limits.adaptive->ceiling < limits.adaptive->floor) {
    return out_of_range("adaptive.ceiling" + of, limits.adaptive->ceiling, limits.adaptive->floor);
  }
  return {};
}

namespace {

// What is promised must be there.
Result<void> validate_guarantees(const GroupPolicy& policy) {
  if (policy.default_group.guaranteed.value_or(0) > 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "guaranteed of default_group is " +
                     std::to_string(*policy.default_group.guaranteed) +
                     "; it can be promised only to groups that are named in groups"};
  }
  std::int64_t promised = 0;
  for (const auto& [key, limits] : policy.groups) promised += limits.guaranteed.value_or(0);
  if (promised <= policy.global_max_in_flight) return {};
  return Error{ErrorCode::kInvalidArgument,
               "guaranteed of all groups together is " + std::to_string(promised) +
                   "; global_max_in_flight is " + std::to_string(policy.global_max_in_flight) +
                   ", and no more can be promised"};
}

}  // namespace

Result<void> GroupPolicy::validate() const {
  for (const auto& [key, limits] : groups) {
    if (key.empty()) return Error{ErrorCode::kInvalidArgument, "groups has an empty key"};
    if (Result<void> valid = detail::validate_limits(limits, " of group " + quoted(key)); !valid) {
      return valid;
    }
  }
  if (Result<void> valid = detail::validate_limits(default_group, " of default_group"); !valid) {
    return valid;
  }
  if (global_max_in_flight < 1) {
    return out_of_range("global_max_in_flight", global_max_in_flight, 1);
  }
  if (global_queue_threshold < 0) {
    return out_of_range("global_queue_threshold", global_queue_threshold, 0);
  }
  return validate_guarantees(*this);
}

GroupLimits GroupPolicy::resolve_shares(std::string_view key) const {
  GroupLimits limits;
  if (const auto found = groups.find(key); found != groups.end()) limits = found->second;
  if (!limits.weight) limits.weight = default_group.weight.value_or(1);
  if (!limits.guaranteed) limits.guaranteed = 0;
  if (!limits.max_in_flight)
    limits.max_in_flight = default_group.max_in_flight.value_or(kUnlimited);
  if (!limits.rate) limits.rate = default_group.rate;
  if (!limits.adaptive && !limits.max_concurrency) limits.adaptive = default_group.adaptive;
  return limits;
}

GroupLimits GroupPolicy::resolve(std::string_view key) const {
  GroupLimits limits = resolve_shares(key);
  if (limits.adaptive) limits.max_concurrency = limits.adaptive->floor;
  if (!limits.max_concurrency && resolver) {
    try {
      limits.max_concurrency = std::max(1, resolver(key));
    } catch (...) {  // whatever is wrong with one key must not stop the rest
    }
  }
  const auto fill = [](std::optional<int>& limit, const std::optional<int>& fallback,
                       int built_in) {
    if (!limit) limit = fallback.value_or(built_in);
  };
  fill(limits.max_concurrency, default_group.max_concurrency, 1);
  fill(limits.queue_threshold, default_group.queue_threshold, kUnlimited);
  return limits;
}

const char* to_string(RejectionPolicy policy) {
  switch (policy) {
    case RejectionPolicy::kAbort:
      return "abort";
    case RejectionPolicy::kDiscard:
      return "discard";
    case RejectionPolicy::kCallerRuns:
      return "caller_runs";
  }
  return "unknown";
}

const char* to_string(Conflation conflation) {
  switch (conflation) {
    case Conflation::kNone:
      return "none";
    case Conflation::kKeepOldest:
      return "keep_oldest";
    case Conflation::kKeepNewest:
      return "keep_newest";
    case Conflation::kCancelRunning:
      return "cancel_running";
    case Conflation::kShareResult:
      return "share_result";
  }
  return "unknown";
}

namespace detail {

std::size_t require_key(std::string_view key, std::string_view what) {
  keyway::require_key(key, what);
  return LaneTable::hash(key);
}

void require_options(std::string_view key, const TaskOptions& options) {
  if (options.conflation != Conflation::kNone && options.id.empty()) {
    throw Exception({ErrorCode::kInvalidArgument, name_of_task(key, {}) +
                                                      " has no id, so it cannot be conflated; give "
                                                      "it one"});
  }
  if (options.cost >= 1) return;
  throw Exception({ErrorCode::kInvalidArgument, "the cost of " + name_of_task(key, options.id) +
                                                    " is " + std::to_string(options.cost) +
                                                    "; it must be at least 1"});
}

void require_id(std::string_view id) {
  if (id.size() > kMaxNameBytes) {
    throw Exception({ErrorCode::kInvalidArgument,
                     "the task id has " + std::to_string(id.size()) + " bytes; at most " +
                         std::to_string(kMaxNameBytes) + " are allowed"});
  }
}

void throw_null_callable(std::string_view key, std::string_view id) {
  throw Exception(
      {ErrorCode::kInvalidArgument, "the callable of " + name_of_task(key, id) + " is null"});
}

void throw_cannot_share(std::string_view key, std::string_view id) {
  throw Exception({ErrorCode::kInvalidArgument,
                   name_of_task(key, id) +
                       " cannot share its result: its value cannot be copied; return a "
                       "std::shared_ptr to it, or choose another Conflation than kShareResult"});
}

}  // namespace detail
}  // namespace keyway
