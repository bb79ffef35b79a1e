// The limits of each group: those of the policy, and changes made while the executor runs.
//
// Thread safety: every method from any thread. The policy's resolver runs under no lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "keyway/group_policy.h"
#include "lanes/lane.h"

namespace keyway {

class LimitBook {
 public:
  // REQUIRES: the policy outlives it, and is valid.
  explicit LimitBook(const GroupPolicy& policy);

  // Their version is the number of changes that they include at least.
  LaneLimits resolve(std::string_view key) KEYWAY_EXCLUDES(mutex_);
  // The limits of all groups if they are equal and were never changed; otherwise null.
  const LaneLimits* uniform() const { return uniform_ && changes() == 0 ? &*uniform_ : nullptr; }

  // Changes the limits that are set in `limits`. An error (kInvalidArgument) for a value that is
  // out of range, or that cannot be changed.
  Result<void> change(std::string_view key, const GroupLimits& limits) KEYWAY_EXCLUDES(mutex_);
  void forget_changes(std::string_view key) KEYWAY_EXCLUDES(mutex_);
  // Whether nothing has changed since the limits were looked up.
  bool are_current(const LaneLimits& limits) const { return limits.version == changes(); }

 private:
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

  const GroupPolicy& policy_;
  std::optional<LaneLimits> uniform_;

  detail::Atomic<std::uint64_t> changes_{0};  // written under mutex_
  Mutex<LockRank::kLeaf> mutex_;
  std::map<std::string, GroupLimits, std::less<>> changed_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
