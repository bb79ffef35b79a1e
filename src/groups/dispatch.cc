#include "groups/dispatch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "keyway/detail/check.h"

namespace keyway {
namespace {

std::unique_ptr<GlobalGate> make_gate(const GroupPolicy& policy, bool shares) {
  if (policy.global_max_in_flight == kUnlimited) return nullptr;
  const GateOrder order = shares                ? GateOrder::kShares
                          : policy.oldest_first ? GateOrder::kAge
                                                : GateOrder::kArrival;
  return std::make_unique<GlobalGate>(static_cast<std::uint32_t>(policy.global_max_in_flight),
                                      order);
}

}  // namespace

Dispatch::Dispatch(const GroupPolicy& policy, Scheduler& scheduler, LaneTable& table, bool shares)
    : scheduler_(scheduler), table_(table), shares_(shares), gate_(make_gate(policy, shares)) {}

// ---- the global limit

void Dispatch::pass_permit_on(Lane& lane, bool has_turn, Aftermath& aftermath) {
  const GlobalGate::Next next = gate_->leave(lane, has_turn);
  if (shares_) table_.unpin(lane);
  if (next.lane != nullptr) aftermath.post(*next.lane);
  if (next.returner != nullptr) next.returner->go_on(aftermath);
}

bool Dispatch::enter_by_shares(Lane& lane, Aftermath& aftermath) {
  GlobalGate::Lanes served;
  const bool has_permit = gate_->enter_by_shares(lane, served);
  if (has_permit) table_.pin(lane);
  for (Lane* other : served) aftermath.post(*other);
  return has_permit;
}

void Dispatch::leave_to_others(Lane& lane, Aftermath& aftermath) {
  GlobalGate::Lanes served;
  gate_->turn_over(lane, served);
  for (Lane* other : served) aftermath.post(*other);
}

GlobalGate::Served Dispatch::set_global_limit(std::uint32_t limit) {
  return gate_->set_limit(limit);
}

void Dispatch::tell(const GlobalGate::Served& served, Aftermath& aftermath) {
  for (Lane* lane : served.lanes) aftermath.post(*lane);
  for (GlobalGate::Returner* returner : served.returners) returner->go_on(aftermath);
}

// A lane holds no global permit while a pause or a rate holds its turn. True: the lane had one, and
// the caller gives it back after it has stored the turn. REQUIRES: the caller still has the turn.
bool Dispatch::take_served_permit(Lane& lane, Aftermath& aftermath) {
  turn_over(lane, aftermath);
  if (gate_ == nullptr || !gate_->claim_unused(lane)) return false;
  pin_for_gate(lane);  // leave_gate() unpins
  return true;
}

// ---- pause

void Dispatch::pause() {
  MutexLock lock(mutex_);
  if (no_more_pauses_) return;
  paused_.store(true, std::memory_order_release);
}

void Dispatch::end_pauses(Aftermath& aftermath) {
  {
    MutexLock lock(mutex_);
    no_more_pauses_ = true;
  }
  resume(aftermath);
}

void Dispatch::resume(Aftermath& aftermath) {
  MutexLock lock(mutex_);
  // release: pairs with admit().
  paused_.store(false, std::memory_order_release);
  for (Lane* lane : held_) aftermath.post(*lane);
  held_.clear();
  held_at_.clear();
}

// False if the turn goes on: the pause is over, or a task of the lane returns from a wait.
bool Dispatch::hold(Lane& lane, Aftermath& aftermath) {
  bool had_permit = false;
  {
    MutexLock lock(mutex_);
    if (!paused_.load(std::memory_order_relaxed) || lane.somebody_returns()) return false;
    had_permit = take_served_permit(lane, aftermath);
    held_at_[&lane] = held_.insert(held_.end(), &lane);
  }
  if (had_permit) leave_gate(lane, aftermath);
  return true;
}

// ---- rates

// Only the worker with the lane's turn takes its tokens. So a token that is there before
// enter_gate() is there afterwards, and a lane in the gate's line takes none.
Dispatch::Admitted Dispatch::admit_rated(Lane& lane, GroupState& state, Aftermath& aftermath) {
  bool has_token = false;
  {
    SpinGuard guard(state.tokens_lock);
    const TimePoint now = scheduler_.now();
    has_token = state.tokens->try_take(now, 0) && state.tokens->next_at() <= now;
  }
  if (!has_token && park(lane, state, aftermath)) return Admitted::kNo;
  if (gate_ != nullptr && !enter_gate(lane, aftermath)) return Admitted::kNo;
  if (!has_token) return Admitted::kYes;
  SpinGuard guard(state.tokens_lock);
  const bool taken = state.tokens->try_take(scheduler_.now());
  KEYWAY_CHECK(taken, "a token was taken by a worker without the lane's turn");
  return Admitted::kWithToken;
}

void Dispatch::give_token_back(Lane& lane, Aftermath& aftermath) {
  GroupState& state = GroupState::of(lane);
  {
    SpinGuard guard(state.tokens_lock);
    state.tokens->give_back();
  }
  unpark(lane, aftermath);
}

// False if the lane need not wait for a token: a task of it returns from a wait, or end_rates() was
// called.
bool Dispatch::park(Lane& lane, GroupState& state, Aftermath& aftermath) {
  bool had_permit = false;
  {
    MutexLock lock(mutex_);
    if (no_more_rates_ || lane.somebody_returns()) return false;
    TimePoint until;
    {
      SpinGuard guard(state.tokens_lock);
      until = state.tokens->next_at();
    }
    had_permit = take_served_permit(lane, aftermath);
    parked_.insert(&lane);
    scheduler_.add_timer(state.token_timer, until);
  }
  if (had_permit) leave_gate(lane, aftermath);
  return true;
}

void Dispatch::tokens_came(Lane& lane) {
  Aftermath aftermath(scheduler_);
  MutexLock lock(mutex_);
  if (parked_.erase(&lane) > 0) aftermath.post(lane);
}

void Dispatch::unpark(Lane& lane, Aftermath& aftermath) {
  {
    MutexLock lock(mutex_);
    if (parked_.erase(&lane) == 0) return;
  }
  // Not under the mutex: cancel_timer() waits for a running tokens_came(), which locks the mutex.
  scheduler_.cancel_timer(GroupState::of(lane).token_timer);
  aftermath.post(lane);
}

void Dispatch::task_returned(Lane& lane, Aftermath& aftermath) {
  {
    MutexLock lock(mutex_);
    if (const auto held = held_at_.find(&lane); held != held_at_.end()) {
      held_.erase(held->second);
      held_at_.erase(held);
      aftermath.post(lane);
      return;
    }
    if (!parked_.contains(&lane)) return;
  }
  unpark(lane, aftermath);
}

void Dispatch::end_rates(Aftermath& aftermath) {
  std::vector<Lane*> lanes;
  {
    MutexLock lock(mutex_);
    no_more_rates_ = true;
    lanes.assign(parked_.begin(), parked_.end());
  }
  std::ranges::sort(lanes, LaneByKey());
  for (Lane* lane : lanes) unpark(*lane, aftermath);
}

std::optional<Duration> Dispatch::tokens_come_in(Lane& lane) {
  MutexLock lock(mutex_);
  if (!parked_.contains(&lane)) return std::nullopt;
  GroupState& state = GroupState::of(lane);
  SpinGuard guard(state.tokens_lock);
  return state.tokens->next_at() - scheduler_.now();
}

}  // namespace keyway
