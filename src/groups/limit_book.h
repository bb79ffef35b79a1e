// The limits of each group: what the policy says, and what was changed while the executor runs.
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

  LaneLimits resolve(std::string_view key) KEYWAY_EXCLUDES(mutex_);
  // Those of every group, if they are the same for all and none was changed. Otherwise null.
  const LaneLimits* uniform() const { return uniform_ && changes() == 0 ? &*uniform_ : nullptr; }

  // What is not given in `limits` stays. An error (kInvalidArgument) for what is out of range, or cannot change.
  Result<void> change(std::string_view key, const GroupLimits& limits) KEYWAY_EXCLUDES(mutex_);
  void forget_changes(std::string_view key) KEYWAY_EXCLUDES(mutex_);
  // The number of changes so far, with those that were forgotten. A lane made with limits that were resolved before a change must be told again.
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

 private:
  const GroupPolicy& policy_;
  std::optional<LaneLimits> uniform_;

  detail::Atomic<std::uint64_t> changes_{0};  // written under mutex_
  Mutex<LockRank::kLeaf> mutex_;
  std::map<std::string, GroupLimits, std::less<>> changed_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
