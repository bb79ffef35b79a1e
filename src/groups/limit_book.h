// The limits of each group: those of the policy, and changes made while the executor runs.
//
// Thread safety: every method from any thread. The policy's resolver runs under no lock.
#pragma once

#include <array>
#include <cstddef>
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

  // Their version grows with the changes of the group, and perhaps with those of other groups.
  LaneLimits resolve(std::string_view key) KEYWAY_EXCLUDES(mutex_);
  // The limits of all groups if they are equal and were never changed; otherwise null.
  const LaneLimits* uniform() const { return uniform_ && !any_changed() ? &*uniform_ : nullptr; }

  // Changes the limits that are set in `limits`. An error (kInvalidArgument) for a value that is
  // out of range, or that cannot be changed.
  Result<void> change(std::string_view key, const GroupLimits& limits) KEYWAY_EXCLUDES(mutex_);
  void forget_changes(std::string_view key) KEYWAY_EXCLUDES(mutex_);
  // Whether those of the group with this hash have not changed since they were looked up.
  bool are_current(const LaneLimits& limits, std::size_t hash) const {
    return limits.version == version_of(hash).load(std::memory_order_acquire);
  }

 private:
  // Several groups share a version, so that the versions take no memory for each group. One version for all groups is not
  // enough: a resolver that takes longer than the time between two changes of other groups would be called without end.
  static constexpr std::size_t kVersions = 256;
  using Version = detail::Atomic<std::uint64_t>;

  bool any_changed() const { return any_changed_.load(std::memory_order_acquire); }
  const Version& version_of(std::size_t hash) const { return versions_[hash % kVersions]; }
  void count_change(std::string_view key) KEYWAY_REQUIRES(mutex_);

  const GroupPolicy& policy_;
  std::optional<LaneLimits> uniform_;

  // Written under mutex_.
  detail::Atomic<bool> any_changed_{false};
  std::array<Version, kVersions> versions_{};
  Mutex<LockRank::kLeaf> mutex_;
  std::map<std::string, GroupLimits, std::less<>> changed_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
