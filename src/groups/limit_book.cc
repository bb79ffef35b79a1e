#include "groups/limit_book.h"

#include <algorithm>

#include "base/hash_key.h"
#include "base/quoted.h"

namespace keyway {
namespace {

void merge(GroupLimits& limits, const GroupLimits& change) {
  if (change.max_concurrency) limits.max_concurrency = change.max_concurrency;
  if (change.max_in_flight) limits.max_in_flight = change.max_in_flight;
  if (change.queue_threshold) limits.queue_threshold = change.queue_threshold;
}

}  // namespace

LimitBook::LimitBook(const GroupPolicy& policy) : policy_(policy) {
  if (policy_.groups.empty() && !policy_.resolver) uniform_ = resolve({});
}

LaneLimits LimitBook::resolve(std::string_view key) {
  // First: what changes from now on may be missing.
  const std::uint64_t version = version_of(hash_key(key)).load(std::memory_order_acquire);
  GroupLimits limits = policy_.resolve(key);
  if (any_changed()) {
    MutexLock lock(mutex_);
    if (const auto found = changed_.find(key); found != changed_.end()) {
      merge(limits, found->second);
    }
  }
  const int threshold = *limits.queue_threshold;
  return {
      .running =
          static_cast<std::uint32_t>(std::min(*limits.max_concurrency, *limits.max_in_flight)),
      .waiting = threshold == kUnlimited ? kNoLimit : static_cast<std::uint32_t>(threshold),
      .version = version,
  };
}

Result<void> LimitBook::change(std::string_view key, const GroupLimits& limits) {
  const std::string of = " of group " + quoted(key);
  if (Result<void> valid = detail::validate_limits(limits, of); !valid) return valid;
  if (limits.weight || limits.guaranteed || limits.rate || limits.adaptive) {
    return Error{ErrorCode::kInvalidArgument, "weight, guaranteed, rate and adaptive" + of +
                                                  " cannot change while the executor runs; give "
                                                  "them in its policy"};
  }
  if ((limits.max_concurrency || limits.max_in_flight) && policy_.resolve_shares(key).adaptive) {
    return Error{ErrorCode::kInvalidArgument,
                 "the limit" + of + " is adaptive; give floor and ceiling in the policy"};
  }
  MutexLock lock(mutex_);
  merge(changed_.try_emplace(std::string(key)).first->second, limits);
  count_change(key);
  return {};
}

void LimitBook::forget_changes(std::string_view key) {
  MutexLock lock(mutex_);
  const auto found = changed_.find(key);
  const bool was_changed = found != changed_.end();
  if (was_changed) changed_.erase(found);
  // Limits that a resolver gave before may be out of date, too.
  if (was_changed || !uniform_) count_change(key);
}

// release: pairs with resolve(), which reads the version first, and with uniform() and are_current().
void LimitBook::count_change(std::string_view key) {
  any_changed_.store(true, std::memory_order_release);
  versions_[hash_key(key) % kVersions].fetch_add(1, std::memory_order_release);
}

}  // namespace keyway
