// The lanes that stand in line at the global gate.
//
// By arrival: in the order they came. By age: whose next task was submitted first, as far as it was known when the lane
// came. By shares: lanes with fewer permits than they were promised come first; then start-time fair queueing decides.
// Each permit moves its lane on by 1 / weight, and the lane that is least far on comes next. A served lane is out of the
// line until its turn comes again; it must not lose its share by that. So until it comes, or says that it does not, it is
// *coming*: it keeps its place, and a lane with a later place does not get a permit before it. A lane that was away
// starts where the others are by now.
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
#include <tuple>
#include <utility>
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
        return arrive(lane, limit);
    }
  }
  // For a lane that had been served, and was not after all.
  void push_front(Lane& lane) {
    switch (order_) {
      case GateOrder::kArrival:
        return lanes_.push_front(&lane);
      case GateOrder::kAge:
        return aged_.push({std::numeric_limits<std::int64_t>::min(), ++number_, &lane});
      case GateOrder::kShares:
        return stand_in_line_again(lane);
    }
  }

  // Whether the first lane may have a free permit. By shares: not while a lane with an earlier place is coming.
  // REQUIRES: not empty.
  bool can_serve() const {
    return coming_.empty() || ranked_.begin()->compare(*coming_.begin()) <= 0;
  }

  // By shares, the lane is coming from now on.
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
    auto node = ranked_.extract(ranked_.begin());
    GroupState& state = GroupState::of(*first.lane);
    // What a lane gets by its guarantee may be more than its share, and says nothing about where the others are.
    if (first.waits_longer) now_ = std::max(now_, first.start);
    state.served_until = first.start + kRound / state.weight;
    state.served_as = ++served_;
    state.coming = true;
    node.value() = place_of(*first.lane);
    coming_.insert(std::move(node));
    return *first.lane;
  }

  // By shares: the turn of the lane is on its way, because the lane has room again. If the lane is not in line, it is coming:
  // a lane at its own limit keeps its share.
  void expect(Lane& lane) {
    GroupState& state = GroupState::of(lane);
    if (state.place != 0) return;
    state.served_until = std::max(state.served_until, now_);
    state.served_as = served_;
    state.coming = true;
    coming_.insert(take_place(lane));
  }

  // By shares: if the lane is coming, it is not any more.
  void not_coming(Lane& lane) {
    GroupState& state = GroupState::of(lane);
    if (!state.coming) return;
    coming_.erase(place_of(lane));
    state.coming = false;
    state.place = 0;
  }

  // The lane has more or fewer permits than before.
  void permits_changed(Lane& lane) {
    GroupState& state = GroupState::of(lane);
    if (state.place == 0 || state.claims == claims(state)) return;
    std::set<Place>& places = state.coming ? coming_ : ranked_;
    auto node = places.extract(place_of(lane));
    state.claims = claims(state);
    node.value() = place_of(lane);
    places.insert(std::move(node));
  }

 private:
  static constexpr std::uint64_t kRound = 720'720;  // divisible by all weights up to 16

  struct Place {
    bool waits_longer = false;  // it has what it was promised
    std::uint64_t start = 0;
    std::uint64_t number = 0;
    Lane* lane = nullptr;
    auto operator<=>(const Place&) const = default;
    // Equal if neither need wait for the other.
    std::strong_ordering compare(const Place& other) const {
      return std::tie(waits_longer, start) <=> std::tie(other.waits_longer, other.start);
    }
  };
  static bool claims(const GroupState& state) { return state.permits < state.guaranteed; }
  static Place place_of(Lane& lane) {
    const GroupState& state = GroupState::of(lane);
    return {!state.claims, state.served_until, state.place, &lane};
  }
  // `longest_turn`: as many other permits as may be given out while the turn of a served lane runs.
  void arrive(Lane& lane, std::uint32_t longest_turn) {
    GroupState& state = GroupState::of(lane);
    const bool was_away = !state.coming || served_ - state.served_as > longest_turn;
    not_coming(lane);
    if (was_away) state.served_until = std::max(state.served_until, now_);
    insert(lane);
  }
  // It was served, and does not use the permit. It keeps its place among lanes that are equally far on.
  void stand_in_line_again(Lane& lane) {
    GroupState& state = GroupState::of(lane);
    const std::uint64_t place = state.place;
    not_coming(lane);
    state.served_until -= kRound / state.weight;
    take_place(lane);
    if (place != 0) state.place = place;
    ranked_.insert(place_of(lane));
  }
  void insert(Lane& lane) { ranked_.insert(take_place(lane)); }
  Place take_place(Lane& lane) {
    GroupState& state = GroupState::of(lane);
    state.place = ++number_;
    state.claims = claims(state);
    return place_of(lane);
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
  std::set<Place> coming_;
  std::uint64_t now_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t served_ = 0;
};

}  // namespace keyway
