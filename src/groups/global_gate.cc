#include "groups/global_gate.h"

#include <utility>

#include "keyway/detail/task_core.h"

namespace keyway {

namespace {

// Since when the next of a lane waits: until it begins, a task says when it was submitted.
std::int64_t age_of_next(const Lane& lane) {
  const auto submitted = [](const Waiter& waiter) {
    return detail::TaskCore::of(waiter).started().time_since_epoch().count();
  };
  return lane.of_next(submitted).value_or(0);
}

}  // namespace

bool GlobalGate::enter(Lane& lane) {
  {
    SpinGuard guard(lock_);
    if (lane.has_global_permit) return enter_served(lane);
    if (order_ != GateOrder::kAge) return enter_or_stand_in_line(lane, 0);
    if (in_flight_ < limit_) {
      give(lane);
      return true;
    }
  }
  const std::int64_t age = age_of_next(lane);  // under no other lock
  SpinGuard guard(lock_);
  return enter_or_stand_in_line(lane, age);
}

bool GlobalGate::enter_or_stand_in_line(Lane& lane, std::int64_t age) {
  if (in_flight_ < limit_) {
    give(lane);
    return true;
  }
  line_.push(lane, age, limit_);
  in_line_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool GlobalGate::enter_by_shares(Lane& lane, Lanes& served) {
  SpinGuard guard(lock_);
  if (lane.has_global_permit) return enter_served(lane);
  line_.push(lane, 0, limit_);
  in_line_.fetch_add(1, std::memory_order_relaxed);
  bool has_permit = false;
  while (can_serve()) {
    Lane& next = serve_first();
    if (&next != &lane) {
      served.push_back(&next);
      continue;
    }
    lane.has_global_permit = false;
    --served_;
    has_permit = true;
  }
  return has_permit;
}

bool GlobalGate::enter_served(Lane& lane) {
  const bool has_it = claim(lane);
  if (has_it && in_flight_ <= limit_) return true;
  // A returner has taken the permit, or the limit went down: back in line, in front.
  if (has_it) take_back(lane);
  over_.store(in_flight_ > limit_, std::memory_order_relaxed);
  if (in_flight_ < limit_) {
    give(lane);
    return true;
  }
  line_.push_front(lane);
  in_line_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void GlobalGate::turn_over(Lane& lane, Lanes& served) {
  SpinGuard guard(lock_);
  line_.not_coming(lane);
  serve_lanes(served);
}

Lane& GlobalGate::serve_first() {
  Lane& lane = line_.pop();
  in_line_.fetch_sub(1, std::memory_order_relaxed);
  lane.has_global_permit = true;
  ++served_;
  give(lane);
  return lane;
}

bool GlobalGate::claim(Lane& lane) {
  lane.has_global_permit = false;
  --served_;
  if (taken_ == 0) return true;
  --taken_;
  if (shares_) count(lane, -1);
  return false;
}

bool GlobalGate::claim_unused(Lane& lane) {
  SpinGuard guard(lock_);
  return lane.has_global_permit && claim(lane);
}

GlobalGate::Next GlobalGate::leave(Lane& lane, bool has_turn) {
  SpinGuard guard(lock_);
  take_back(lane);
  if (shares_ && has_turn) line_.expect(lane);
  over_.store(in_flight_ > limit_, std::memory_order_relaxed);
  if (in_flight_ >= limit_) return {};
  if (!returners_.empty()) return {.returner = &serve_returner()};
  if (can_serve()) return {.lane = &serve_first()};
  return {};
}

GlobalGate::Returner& GlobalGate::serve_returner() {
  Returner& returner = *returners_.front();
  returners_.pop_front();
  in_line_.fetch_sub(1, std::memory_order_relaxed);
  give(returner.gate_lane());
  return returner;
}

GlobalGate::Served GlobalGate::set_limit(std::uint32_t limit) {
  Served served;
  SpinGuard guard(lock_);
  limit_ = limit;
  over_.store(in_flight_ > limit_, std::memory_order_relaxed);
  while (in_flight_ < limit_ && !returners_.empty()) served.returners.push_back(&serve_returner());
  serve_lanes(served.lanes);
  return served;
}

bool GlobalGate::enter_again(Returner& returner) {
  SpinGuard guard(lock_);
  // As many permits of served lanes as needed: several if the limit went down.
  while (in_flight_ >= limit_ && taken_ < served_) {
    ++taken_;
    --in_flight_;
  }
  over_.store(in_flight_ > limit_, std::memory_order_relaxed);
  if (in_flight_ < limit_) {
    give(returner.gate_lane());
    return true;
  }
  returners_.push_back(&returner);
  in_line_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace keyway
