#include "groups/group_state.h"

#include "groups/group_engine.h"

namespace keyway {

void TokenTimer::fire() { engine_.tokens_came(lane_); }

GroupState::GroupState(GroupEngine& engine, Lane& lane, const GroupLimits& limits,
                       const Scheduler& scheduler)
    : weight(static_cast<std::uint32_t>(limits.weight.value_or(1))),
      guaranteed(static_cast<std::uint32_t>(limits.guaranteed.value_or(0))),
      adapts(limits.adaptive.has_value()),
      most_in_flight(static_cast<std::uint32_t>(limits.max_in_flight.value_or(kUnlimited))),
      token_timer(engine, lane),
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

// A bucket that is not full again would be, if it were made anew; and what was learnt is worth more
// than a lane, for a while.
bool GroupState::is_needed() const {
  const TimePoint now = scheduler_.now();
  if (tokens && tokens->next_at(burst_) > now) return true;
  return adaptive_until > now;
}

}  // namespace keyway
