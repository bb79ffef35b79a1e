// The lanes that stand in line at the global gate.
//
// By arrival: in the order they came. By age: whose next task was submitted first, as far as it was known when the lane
// came. By shares: lanes with fewer permits than they were promised come first; then start-time fair queueing decides.
// Each permit moves its lane on by 1 / weight, and the lane that is least far on comes next. A served lane leaves the
// line until its turn has run; others may be served meanwhile, and it must not lose its share by that. So a lane comes back
// where it was, unless it was away longer than its turn can take: then it starts where the others are by now.
//
// Thread safety: the gate's lock.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <vector>

#include "groups/group_state.h"
#include "lanes/lane.h"

namespace keyway {

enum class GateOrder { kArrival, kAge, kShares };

class GateLine {
 public:
  explicit GateLine(GateOrder order) : order_(order) {}

  bool empty() const { return lanes_.empty() && ranked_.empty() && aged_.empty(); }

  // `age`: of its next task, if that is what counts; less is older. `limit`: the global limit.
  void push(Lane& lane, std::int64_t age, std::uint32_t limit) {
    switch (order_) {
      case GateOrder::kArrival:
        return lanes_.push_back(&lane);
      case GateOrder::kAge:
        return aged_.push({age, ++number_, &lane});
      case GateOrder::kShares:
        return insert(lane, limit);
    }
  }
  // For one that had been served, and was not after all.
  void push_front(Lane& lane) {
    switch (order_) {
      case GateOrder::kArrival:
        return lanes_.push_front(&lane);
      case GateOrder::kAge:
        return aged_.push({std::numeric_limits<std::int64_t>::min(), ++number_, &lane});
      case GateOrder::kShares:
        GroupState::of(lane).served_until -= kRound / GroupState::of(lane).weight;
        return insert(lane, std::numeric_limits<std::uint32_t>::max());
    }
  }

  // REQUIRES: not empty.
  Lane& pop() {
    if (order_ == GateOrder::kArrival) {
      Lane& lane = *lanes_.front();
      lanes_.pop_front();
      return lane;
    }
    if (order_ == GateOrder::kAge) {
      Lane& lane = *aged_.top().lane;
      aged_.pop();
      return lane;
    }
    const Place first = *ranked_.begin();
    ranked_.erase(ranked_.begin());
    GroupState& state = GroupState::of(*first.lane);
    state.place = 0;
    now_ = std::max(now_, first.start);
    state.served_until = first.start + kRound / state.weight;
    state.served_as = ++served_;
    return *first.lane;
  }

  // The lane has more or fewer permits than before.
  void permits_changed(Lane& lane) {
    GroupState& state = GroupState::of(lane);
    if (state.place == 0 || state.claims == claims(state)) return;
    ranked_.erase(place_of(lane));
    state.claims = claims(state);
    ranked_.insert(place_of(lane));
  }

 private:
  static constexpr std::uint64_t kRound = 720'720;  // divisible by all weights up to 16

  struct Place {
    bool waits_longer = false;  // it has what it was promised
    std::uint64_t start = 0;
    std::uint64_t number = 0;
    Lane* lane = nullptr;
    auto operator<=>(const Place&) const = default;
  };
  static bool claims(const GroupState& state) { return state.permits < state.guaranteed; }
  static Place place_of(Lane& lane) {
    const GroupState& state = GroupState::of(lane);
    return {!state.claims, state.served_until, state.place, &lane};
  }
  // `longest_turn`: as many other permits as may be given out while the turn of a served lane runs.
  void insert(Lane& lane, std::uint32_t longest_turn) {
    GroupState& state = GroupState::of(lane);
    const bool was_away = state.served_as == 0 || served_ - state.served_as > longest_turn;
    if (was_away) state.served_until = std::max(state.served_until, now_);
    state.place = ++number_;
    state.claims = claims(state);
    ranked_.insert(place_of(lane));
  }

  struct Aged {
    std::int64_t age = 0;
    std::uint64_t number = 0;
    Lane* lane = nullptr;
    auto operator<=>(const Aged&) const = default;
  };

  const GateOrder order_;
  std::deque<Lane*> lanes_;
  std::priority_queue<Aged, std::vector<Aged>, std::greater<>> aged_;
  std::set<Place> ranked_;
  std::uint64_t now_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t served_ = 0;
};

}  // namespace keyway
