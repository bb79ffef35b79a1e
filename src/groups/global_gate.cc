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
  // relaxed: a hint, looked at again under the lock.
  if (lane.has_global_permit && !over_.load(std::memory_order_relaxed)) {
    lane.has_global_permit = false;
    return true;
  }
  {
    SpinGuard guard(lock_);
    if (std::exchange(lane.has_global_permit, false)) {
      if (in_flight_ <= limit_) return true;
      // The limit went down before the permit was used: back in line, in front.
      take_back(lane);
      over_.store(in_flight_ > limit_, std::memory_order_relaxed);
      line_.push_front(lane);
      in_line_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
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
  line_.push(lane, age);
  in_line_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

Lane& GlobalGate::serve_first() {
  Lane& lane = line_.pop();
  in_line_.fetch_sub(1, std::memory_order_relaxed);
  lane.has_global_permit = true;
  give(lane);
  return lane;
}

Lane* GlobalGate::leave(Lane& lane) {
  Returner* returner = nullptr;
  {
    SpinGuard guard(lock_);
    take_back(lane);
    over_.store(in_flight_ > limit_, std::memory_order_relaxed);
    if (in_flight_ >= limit_) return nullptr;
    if (returners_.empty()) return line_.empty() ? nullptr : &serve_first();
    in_line_.fetch_sub(1, std::memory_order_relaxed);
    returner = returners_.front();
    returners_.pop_front();
    give(returner->gate_lane());
  }
  returner->go_on();
  return nullptr;
}

std::vector<Lane*> GlobalGate::set_limit(std::uint32_t limit) {
  std::vector<Lane*> lanes;
  std::vector<Returner*> returners;
  {
    SpinGuard guard(lock_);
    limit_ = limit;
    over_.store(in_flight_ > limit_, std::memory_order_relaxed);
    while (in_flight_ < limit_ && !returners_.empty()) {
      in_line_.fetch_sub(1, std::memory_order_relaxed);
      returners.push_back(returners_.front());
      returners_.pop_front();
      give(returners.back()->gate_lane());
    }
    while (in_flight_ < limit_ && !line_.empty()) lanes.push_back(&serve_first());
  }
  for (Returner* returner : returners) returner->go_on();
  return lanes;
}

bool GlobalGate::enter_again(Returner& returner) {
  SpinGuard guard(lock_);
  if (in_flight_ < limit_) {
    give(returner.gate_lane());
    return true;
  }
  returners_.push_back(&returner);
  in_line_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace keyway
