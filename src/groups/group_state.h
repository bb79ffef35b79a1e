// What a group has that was given a weight, a guarantee, a rate or an adaptive limit. It hangs on the
// group's lane, in executors whose policy has any of these.
#pragma once

#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "base/spin_lock.h"
#include "base/token_bucket.h"
#include "groups/adaptive_limit.h"
#include "keyway/group_policy.h"
#include "lanes/lane.h"

namespace keyway {

class Dispatch;

// Brings a lane its turn back when there are tokens again.
class TokenTimer final : public Timer {
 public:
  TokenTimer(Dispatch& dispatch, Lane& lane) : dispatch_(dispatch), lane_(lane) {}
  void fire() override;

 private:
  Dispatch& dispatch_;
  Lane& lane_;
};

class GroupState final : public LaneExtension {
 public:
  GroupState(Dispatch& dispatch, Lane& lane, const GroupLimits& limits, const Scheduler& scheduler);

  static GroupState& of(const Lane& lane) { return static_cast<GroupState&>(*lane.extension()); }

  bool is_needed() const override;
  // An adaptive group keeps the limit that it has learnt.
  LimitPart limits_of_policy() const override {
    return adapts ? LimitPart::kWaiting : LimitPart::kBoth;
  }

  // Constant after construction.
  const std::uint32_t weight;
  const std::uint32_t guaranteed;
  const bool adapts;
  const std::uint32_t most_in_flight;  // whatever is found by measuring

  // The gate's, under its lock.
  std::uint32_t permits = 0;       // of the global limit
  std::uint64_t served_until = 0;  // see GateLine
  std::uint64_t served_as = 0;     // the number of its last permit that was not a returner's
  std::uint64_t place = 0;         // 0: it does not stand in line, and is not coming
  bool coming = false;             // its turn has a permit or is on its way
  bool claims = false;             // in front of those who have what they were promised

  // The rate. Only the worker with the lane's turn takes tokens; other threads read the bucket or
  // give a token back.
  mutable SpinLock<LockRank::kLeaf> tokens_lock;
  std::optional<TokenBucket>
      tokens;  // whether it is set is constant; the bucket is guarded by tokens_lock
  TokenTimer token_timer;

  Mutex<LockRank::kAdaptiveLimit> mutex;
  std::optional<AdaptiveLimit> adaptive KEYWAY_GUARDED_BY(mutex);
  std::uint32_t learnt KEYWAY_GUARDED_BY(mutex) = 0;  // the newest limit
  // How long what was learnt is kept. Written while somebody is inside, read when nobody is.
  TimePoint adaptive_until{};

 private:
  const Scheduler& scheduler_;
  const int burst_;
};

}  // namespace keyway
