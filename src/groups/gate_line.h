// The lanes that stand in line at the global gate.
//
// Without shares: in the order they came. With shares: those who have less than they were promised first;
// then by start-time fair queueing. Each permit moves its lane on by 1 / weight; the lane that is least far
// on comes next, and one that was away starts where the others are by now.
//
// Thread safety: the gate's lock.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <set>

#include "groups/group_state.h"
#include "lanes/lane.h"

namespace keyway {

class GateLine {
 public:
  explicit GateLine(bool shares) : shares_(shares) {}

  bool empty() const { return shares_ ? ranked_.empty() : lanes_.empty(); }

  void push(Lane& lane) {
    if (!shares_) {
      lanes_.push_back(&lane);
    } else {
      insert(lane);
    }
  }
  // For one that had been served, and was not after all.
  void push_front(Lane& lane) {
    if (!shares_) {
      lanes_.push_front(&lane);
    } else {
      GroupState::of(lane).served_until -= kRound / GroupState::of(lane).weight;
      insert(lane);
    }
  }

  // REQUIRES: not empty.
  Lane& pop() {
    if (!shares_) {
      Lane& lane = *lanes_.front();
      lanes_.pop_front();
      return lane;
    }
    const Place first = *ranked_.begin();
    ranked_.erase(ranked_.begin());
    GroupState& state = GroupState::of(*first.lane);
    state.place = 0;
    now_ = std::max(now_, first.start);
    state.served_until = first.start + kRound / state.weight;
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
  static constexpr std::uint64_t kRound = 1 << 20;

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
  void insert(Lane& lane) {
    GroupState& state = GroupState::of(lane);
    state.served_until = std::max(state.served_until, now_);
    state.place = ++number_;
    state.claims = claims(state);
    ranked_.insert(place_of(lane));
  }

  const bool shares_;
  std::deque<Lane*> lanes_;
  std::set<Place> ranked_;
  std::uint64_t now_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace keyway
