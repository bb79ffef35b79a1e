#include "groups/group_state.h"

#include "groups/dispatch.h"

namespace keyway {

void TokenTimer::fire() { dispatch_.tokens_came(lane_); }

GroupState::GroupState(Dispatch& dispatch, Lane& lane, const GroupLimits& limits,
                       const Scheduler& scheduler)
    : weight(static_cast<std::uint32_t>(limits.weight.value_or(1))),
      guaranteed(static_cast<std::uint32_t>(limits.guaranteed.value_or(0))),
      adapts(limits.adaptive.has_value()),
      most_in_flight(static_cast<std::uint32_t>(limits.max_in_flight.value_or(kUnlimited))),
      token_timer(dispatch, lane),
      scheduler_(scheduler),
      burst_(limits.rate ? limits.rate->burst : 0) {
  if (limits.rate) {
    tokens.emplace(TokenBucket::Options{.per_second = limits.rate->per_second,
                                        .burst = static_cast<double>(limits.rate->burst)});
  }
  if (limits.adaptive) {
    adaptive.emplace(AdaptiveLimit::Options{.floor = limits.adaptive->floor,
                                            .ceiling = limits.adaptive->ceiling});
  }
}

// Recreating the bucket would refill it, so the lane is kept until the bucket is full. An adaptive
// limit is kept for a while after the last task.
bool GroupState::is_needed() const {
  const TimePoint now = scheduler_.now();
  if (tokens) {
    SpinGuard guard(tokens_lock);
    if (tokens->next_at(burst_) > now) return true;
  }
  return adaptive_until > now;
}

}  // namespace keyway
