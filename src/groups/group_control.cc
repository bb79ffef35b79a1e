// What can be changed while an executor runs: limits, and who is held back.
#include <algorithm>

#include "groups/group_engine.h"

namespace keyway {
namespace {

// What `change` says, and where it says nothing, what was there before.
void merge(GroupLimits& limits, const GroupLimits& change) {
  if (change.max_concurrency) limits.max_concurrency = change.max_concurrency;
  if (change.max_in_flight) limits.max_in_flight = change.max_in_flight;
  if (change.queue_threshold) limits.queue_threshold = change.queue_threshold;
}

}  // namespace

LaneLimits GroupEngine::resolve(std::string_view key) {
  GroupLimits limits = policy_.resolve(key);
  // acquire: pairs with set_limits().
  if (limits_changed_.load(std::memory_order_acquire) > 0) {
    MutexLock lock(control_mutex_);
    if (const auto found = overrides_.find(key); found != overrides_.end()) {
      merge(limits, found->second);
    }
  }
  const int threshold = *limits.queue_threshold;
  return {
      .running =
          static_cast<std::uint32_t>(std::min(*limits.max_concurrency, *limits.max_in_flight)),
      .waiting = threshold == kUnlimited ? kNoLimit : static_cast<std::uint32_t>(threshold),
  };
}

// First it is said what holds from now on, then the lane is told. Whoever makes the lane meanwhile
// sees that something was changed, and tells it once more.
Result<void> GroupEngine::set_limits(std::string_view key, const GroupLimits& limits) {
  const std::string of = " of group \"" + std::string(key) + "\"";
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
  {
    MutexLock lock(control_mutex_);
    const auto found = overrides_.try_emplace(std::string(key)).first;
    merge(found->second, limits);
    limits_changed_.fetch_add(1, std::memory_order_release);
  }
  if (Lane* lane = table_.pin_existing(key, LaneTable::hash(key))) {
    apply_changed_limits(*lane, key);
    table_.unpin(*lane);
  }
  return {};
}

void GroupEngine::apply_changed_limits(Lane& lane, std::string_view key) {
  // Two changes at once may come here in either order: the last one to come must tell the newest.
  std::uint64_t told = 0;
  do {
    told = limits_changed_.load(std::memory_order_acquire);
    const LaneLimits limits = resolve(key);
    if (change(lane, [&] { return lane.set_limits(limits); })) scheduler_.post(lane);
    less_room();
    made_room(lane);
  } while (limits_changed_.load(std::memory_order_acquire) != told);
}

Result<void> GroupEngine::set_global_limit(int limit) {
  if (limit < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "global_max_in_flight is " + std::to_string(limit) + "; it must be at least 1"};
  }
  if (gate_ == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 "the executor was made without a global limit, and does not count what runs; give "
                 "global_max_in_flight in its policy"};
  }
  const auto permits = static_cast<std::uint32_t>(limit);
  if (admission_ != nullptr) {
    MutexLock lock(admission_->mutex);
    admission_->limit = permits;
  }
  for (Lane* lane : gate_->set_limit(permits)) scheduler_.post(*lane);
  if (!room_line_.empty()) let_all_in();
  return {};
}

void GroupEngine::evict_group(std::string_view key) {
  {
    MutexLock lock(control_mutex_);
    if (const auto found = overrides_.find(key); found != overrides_.end()) overrides_.erase(found);
  }
  const std::size_t hash = LaneTable::hash(key);
  const Lane* lane = table_.with_lane(key, hash, [](Lane* found) {
    if (found != nullptr) found->limits_stale.store(true, std::memory_order_relaxed);
    return found;
  });
  if (lane != nullptr) table_.forget_if_idle(lane, hash);
}

// ---- pause

void GroupEngine::pause_group(std::string_view key) {
  Lane& lane = pin(key);
  bool is_new = false;
  {
    MutexLock lock(control_mutex_);
    is_new = paused_groups_.try_emplace(std::string(key), &lane).second;
    if (is_new) change(lane, [&] { return lane.set_paused(true); });
  }
  made_room(lane);  // for those of other groups that the global limit holds back
  if (!is_new) unpin(lane);
}

void GroupEngine::resume_group(std::string_view key) {
  Lane* lane = nullptr;
  {
    MutexLock lock(control_mutex_);
    const auto found = paused_groups_.find(key);
    if (found == paused_groups_.end()) return;
    lane = found->second;
    paused_groups_.erase(found);
    if (change(*lane, [&] { return lane->set_paused(false); })) scheduler_.post(*lane);
  }
  made_room(*lane);
  table_.unpin(*lane);
}

void GroupEngine::pause() {
  MutexLock lock(control_mutex_);
  paused_.store(true, std::memory_order_relaxed);
}

void GroupEngine::resume() {
  std::vector<Lane*> lanes;
  {
    MutexLock lock(control_mutex_);
    paused_.store(false, std::memory_order_relaxed);
    lanes.swap(held_turns_);
  }
  for (Lane* lane : lanes) scheduler_.post(*lane);
}

// Keeps the turn of `lane` until resume(). False if it goes on: nothing is paused any more, or somebody
// in it has begun before and comes back for its permit.
bool GroupEngine::hold_turn(Lane& lane) {
  MutexLock lock(control_mutex_);
  if (!paused_.load(std::memory_order_relaxed) || lane.somebody_returns()) return false;
  held_turns_.push_back(&lane);
  return true;
}

// For one who has come back into `lane`.
void GroupEngine::give_held_turn(Lane& lane) {
  {
    MutexLock lock(control_mutex_);
    if (std::erase(held_turns_, &lane) == 0) return;
  }
  scheduler_.post(lane);
}

void GroupEngine::resume_everything() {
  std::vector<std::string> keys;
  {
    MutexLock lock(control_mutex_);
    for (const auto& [key, lane] : paused_groups_) keys.push_back(key);
  }
  for (const std::string& key : keys) resume_group(key);
  resume();
}

}  // namespace keyway
