#include <string>

#include "base/quoted.h"
#include "keyway/pipeline.h"

namespace keyway {

namespace {

Error out_of_range(const std::string& name, const std::string& value, const std::string& range) {
  return {ErrorCode::kInvalidArgument, name + " is " + value + "; it must be " + range};
}

template <class Number>
Result<void> require_at_least(const char* name, Number value, Number least) {
  if (value >= least) return {};
  return out_of_range(name, std::to_string(value), "at least " + std::to_string(least));
}

Result<void> require_not_negative(const char* name, Duration duration) {
  if (duration >= Duration::zero()) return {};
  return out_of_range(name, std::to_string(duration.count()) + " ns", "at least 0");
}

// With an interval of 0 the pipeline would do nothing but commit.
Result<void> require_commit_interval(Duration interval) {
  if (interval > Duration::zero()) return {};
  return out_of_range("commit_interval", std::to_string(interval.count()) + " ns", "above 0");
}

Result<void> require_rate(const char* name, const std::optional<RateLimit>& rate) {
  if (!rate) return {};
  const std::string of = std::string(name) + ".";
  if (!(rate->per_second > 0 && rate->per_second <= 9e9)) {
    return out_of_range(of + "per_second", std::to_string(rate->per_second),
                        "above 0 and at most 9e9");
  }
  return require_at_least((of + "burst").c_str(), rate->burst, 1);
}

Result<void> require_limits(const PipelineOptions& options) {
  std::int64_t promised = 0;
  for (const auto& [name, limits] : options.limits) {
    if (name.empty()) return Error{ErrorCode::kInvalidArgument, "limits has an empty name"};
    const std::string of = " of " + quoted(name) + " in limits";
    if (Result<void> valid = detail::validate_limits(limits, of); !valid) return valid;
    promised += limits.guaranteed.value_or(0);
  }
  if (promised <= options.concurrency) return {};
  return Error{ErrorCode::kInvalidArgument, "guaranteed of all in limits together is " +
                                                std::to_string(promised) + "; concurrency is " +
                                                std::to_string(options.concurrency) +
                                                ", and no more can be promised"};
}

// Without order by key, a key has no group of its own that could have limits.
Result<void> require_order_of_keys(const PipelineOptions& options) {
  if (options.order == Order::kKey) return {};
  const std::string but =
      std::string(", but order is ") + (options.order == Order::kNone ? "kNone" : "kPartition");
  if (!options.limits.empty() && !options.by_group) {
    return Error{ErrorCode::kInvalidArgument,
                 "limits names keys" + but +
                     ": no limit of a key is held; set order to kKey, or set by_group, and limits "
                     "names groups"};
  }
  if (options.key_rate) {
    return Error{ErrorCode::kInvalidArgument,
                 "key_rate is set" + but +
                     ": no rate of a key is held; set order to kKey, or use rate for all records "
                     "together"};
  }
  return {};
}

}  // namespace

Result<void> PipelineOptions::validate() const {
  Result<void> checks[] = {
      require_at_least("key_concurrency", key_concurrency, 1),
      require_at_least("concurrency", concurrency, 1),
      require_at_least("group_concurrency", group_concurrency, 1),
      require_limits(*this),
      require_at_least("batch.most", batch.most, 1),
      require_not_negative("batch.linger", batch.linger),
      require_at_least("retry.attempts", retry.attempts, 1),
      require_not_negative("retry.first", retry.first),
      require_not_negative("retry.ceiling", retry.ceiling),
      require_not_negative("retry.attempt_timeout", retry.attempt_timeout),
      require_at_least<std::size_t>("max_in_flight", max_in_flight, 1),
      require_at_least<std::size_t>("max_in_flight_bytes", max_in_flight_bytes, 1),
      require_at_least("max_in_flight_per_key", max_in_flight_per_key, 0),
      require_at_least<std::size_t>("max_window", max_window, 1),
      require_commit_interval(commit_interval),
      require_at_least<std::uint64_t>("commit_every", commit_every, 1),
      require_not_negative("shutdown_wait", shutdown_wait),
      require_rate("rate", rate),
      require_rate("key_rate", key_rate),
      require_order_of_keys(*this),
  };
  for (Result<void>& valid : checks) {
    if (!valid) return std::move(valid);
  }
  return {};
}

}  // namespace keyway
