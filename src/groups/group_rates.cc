// Groups with a rate, and groups whose limit is found by measuring.
#include <algorithm>
#include <utility>
#include <vector>

#include "groups/group_engine.h"

namespace keyway {
namespace {

// How long a limit that was learnt outlives the last task of its group.
constexpr auto kLearntIsKept = std::chrono::minutes(1);

}  // namespace

std::unique_ptr<LaneExtension> GroupEngine::extend(Lane& lane) {
  if (!has_states_) return nullptr;
  return std::make_unique<GroupState>(*this, lane, policy_.resolve_shares(lane.key()), scheduler_);
}

// Whoever has the lane's turn asks, and gives it away if the answer is yes.
bool GroupEngine::waits_for_tokens(Lane& lane, GroupState& state) {
  const TimePoint now = scheduler_.now();
  if (state.tokens->try_take(now, 0) && state.tokens->next_at() <= now) return false;
  MutexLock lock(parked_mutex_);
  // Who comes back for its permit has started before, and need not wait. It says so after it has
  // entered the lane, under this mutex.
  if (no_more_rates_.load(std::memory_order_relaxed) || lane.somebody_returns()) return false;
  parked_.insert(&lane);
  scheduler_.add_timer(state.token_timer, state.tokens->next_at());
  return true;
}

void GroupEngine::tokens_came(Lane& lane) {
  {
    MutexLock lock(parked_mutex_);
    if (parked_.erase(&lane) == 0) return;
  }
  scheduler_.post(lane);
}

void GroupEngine::stop_waiting_for_tokens(Lane& lane) {
  {
    MutexLock lock(parked_mutex_);
    if (parked_.erase(&lane) == 0) return;
  }
  // Not under the mutex: if it fires right now, it needs that.
  scheduler_.cancel_timer(GroupState::of(lane).token_timer);
  scheduler_.post(lane);
}

void GroupEngine::stop_waiting_for_tokens() {
  std::vector<Lane*> lanes;
  {
    MutexLock lock(parked_mutex_);
    no_more_rates_.store(true, std::memory_order_relaxed);
    lanes.assign(parked_.begin(), parked_.end());
    parked_.clear();
  }
  std::ranges::sort(lanes, LaneByKey());
  for (Lane* lane : lanes) {
    scheduler_.cancel_timer(GroupState::of(*lane).token_timer);
    scheduler_.post(*lane);
  }
}

// If the lane waits for some: then nobody else looks at its bucket.
std::optional<Duration> GroupEngine::tokens_come_in(Lane& lane) {
  MutexLock lock(parked_mutex_);
  if (!parked_.contains(&lane)) return std::nullopt;
  return GroupState::of(lane).tokens->next_at() - scheduler_.now();
}

// REQUIRES: a task of the lane has its permit, still.
void GroupEngine::adapt(Lane& lane, Duration took, TimePoint now) {
  GroupState& state = GroupState::of(lane);
  const auto running = static_cast<int>(lane.counts().running);
  {
    MutexLock lock(state.mutex);
    const auto found = static_cast<std::uint32_t>(state.adaptive->on_completed(took, running, now));
    const std::uint32_t limit = std::min(found, state.most_in_flight);
    state.adaptive_until = now + kLearntIsKept;
    LaneLimits limits = lane.limits();
    if (limits.running == limit) return;
    limits.running = limit;
    if (change(lane, [&] { return lane.set_limits(limits); })) scheduler_.post(lane);
  }
  less_room();
  made_room(lane);
}

}  // namespace keyway
