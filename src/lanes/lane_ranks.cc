// A lane in which some have a priority, or cost more than one permit. All of it happens under both locks.
//
// Who is next: those who come back for their permit, then by priority, and within one in the order they
// entered. The one who is next waits for all the permits that it costs, and all others behind it.
#include <algorithm>
#include <utility>

#include "lanes/lane.h"

namespace keyway {

// A queued task needs as many permits as the costliest task of its queue, and a returning task as
// many as the costliest returning one: see needed_for(). running_ includes the permits of waiting
// tasks, so if `units` are free besides, the new task delays no other.
void Lane::count_cost(std::uint32_t cost, bool returns) {
  const std::uint32_t largest = (returns ? ranks_->returning : ranks_->queued).largest();
  const std::uint32_t units = std::min(cost, limit_);
  if (units > largest && std::uint64_t{running_} + units > limit_) ranks_->need_grew = true;
  ranks_->queued.add(cost);
  if (returns) ranks_->returning.add(cost);
}

bool Lane::take_need_grew() {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  return ranks_ != nullptr && std::exchange(ranks_->need_grew, false);
}

Waiter* Lane::first_in_line() const {
  const bool returns = rare_ != nullptr && rare_->returners > 0;
  const bool has_level = ranks_ != nullptr && !ranks_->levels.empty();
  if (!returns && has_level && ranks_->levels.begin()->first > 0) {
    return ranks_->levels.begin()->second.front();
  }
  if (!taken_in_.empty()) return taken_in_.front();
  if (!inbox_.empty()) return inbox_.front();
  return has_level ? ranks_->levels.begin()->second.front() : nullptr;
}

void Lane::insert_ranked(Waiter& waiter) {
  const LaneRank rank = owner_.rank_of(waiter);
  count_cost(rank.cost, /*returns=*/false);
  if (rank.priority == 0) {
    inbox_.push_back(waiter);
  } else {
    ranks_->levels[rank.priority].push_back(waiter);
  }
}

void Lane::remove_ranked(Waiter& waiter) {
  const LaneRank rank = owner_.rank_of(waiter);
  ranks_->queued.remove(rank.cost);
  WaiterList::unlink(waiter);
  if (rank.priority == 0) return;
  const auto level = ranks_->levels.find(rank.priority);
  if (level->second.empty()) ranks_->levels.erase(level);
}

void Lane::take_ranked(bool has_turn, LaneTake& taken) {
  if (Waiter* next = first_in_line(); next != nullptr && fits(*next)) {
    taken.waiter = next;
    taken.units = units_of(*next);
    taken.number = ++started_;
    taken.stood_in_line = true;
    if (rare_ != nullptr && rare_->returners > 0) {
      --rare_->returners;
      ranks_->returning.remove(owner_.rank_of(*next).cost);
    }
    remove_ranked(*next);
    running_ += taken.units;
    ranks_->extra_running += taken.units - 1;
  }
  if (has_turn) taken.post_turn = place_turn();
  taken.idle = taken.waiter == nullptr && running_ == 0 && !turn_out_;
}

void Lane::finish_ranked(bool go_on, std::uint32_t units, LaneTake& taken) {
  SpinGuard intake(intake_);
  give_back_units(units);
  if (go_on) {
    take_ranked(/*has_turn=*/stalled_, taken);
  } else {
    taken.post_turn = stalled_ && place_turn();
    taken.idle = running_ == 0 && !turn_out_;
  }
  forget_ranks_if_empty();
}

bool Lane::place_turn() {
  const Waiter* next = first_in_line();
  turn_out_ = next != nullptr;
  stalled_ = turn_out_ && !fits(*next);
  return turn_out_ && !stalled_;
}

void Lane::gather_ranked(WaiterList& all) {
  for (std::uint64_t i = rare_ == nullptr ? 0 : rare_->returners; i > 0; --i) {
    all.push_back(taken_in_.pop_front());
  }
  auto level = ranks_->levels.begin();
  for (; level != ranks_->levels.end() && level->first > 0; ++level) all.append(level->second);
  all.append(taken_in_);
  all.append(inbox_);
  for (; level != ranks_->levels.end(); ++level) all.append(level->second);
  ranks_->levels.clear();
  ranks_->queued.clear();
  ranks_->returning.clear();
}

// A turn that is posted or stalled goes on as in any lane.
void Lane::forget_ranks_if_empty() {
  if (ranks_ == nullptr || running_ > 0 || waiting() > 0) return;
  ranks_.reset();
  careful_ = waiting_limit_.load(std::memory_order_relaxed) != kNoLimit;
}

Lane::Fitting Lane::fitting(std::uint64_t most, const Costs& costs) const {
  const std::uint64_t room = limit_now() > running_ ? limit_now() - running_ : 0;
  const std::uint64_t wanted = most + costs.extra();
  if (wanted <= room) return {.count = most, .units = running_ + wanted};
  if (costs.extra() == 0) return {.count = room, .units = running_ + room};
  Fitting fitting{.count = 0, .units = running_};
  each_in_order([&](const Waiter& waiter) KEYWAY_REQUIRES(dispatch_) {
    const std::uint64_t units = fitting.units + units_of(waiter);
    if (fitting.count == most || units > limit_now()) return false;
    fitting = {.count = fitting.count + 1, .units = units};
    return true;
  });
  return fitting;
}

// Those who would fit are not held back by the lane; the rest is.
bool Lane::is_full_ranked(const Waiter& newcomer) const {
  const std::uint64_t waiting_limit = waiting_limit_.load(std::memory_order_relaxed);
  const std::uint64_t there = waiting();
  if (there < waiting_limit) return false;
  const Fitting now = fitting(there, ranks_->queued);
  if (now.count == there && now.units + units_of(newcomer) <= limit_now()) return false;
  return there - now.count >= waiting_limit;
}

std::uint32_t Lane::needed_for(const Waiter& waiter, bool outside) const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  if (!outside && !WaiterList::linked(waiter)) return 0;
  const std::uint32_t own = units_of(waiter);
  return ranks_ == nullptr ? own : std::max(own, std::min(ranks_->queued.largest(), limit_));
}

std::uint32_t Lane::needed_to_return(std::uint32_t units) const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  if (ranks_ != nullptr) units = std::max(units, ranks_->returning.largest());
  return std::min(units, limit_);
}

}  // namespace keyway
