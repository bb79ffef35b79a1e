#include "groups/global_gate.h"

#include <utility>

namespace keyway {

bool GlobalGate::enter(Lane& lane) {
  // relaxed: a hint, looked at again under the lock.
  if (lane.has_global_permit && !over_.load(std::memory_order_relaxed)) {
    lane.has_global_permit = false;
    return true;
  }
  SpinGuard guard(lock_);
  if (std::exchange(lane.has_global_permit, false)) {
    if (in_flight_ <= limit_) return true;
    // The limit went down before the permit was used: back in line, in front.
    --in_flight_;
    over_.store(in_flight_ > limit_, std::memory_order_relaxed);
    lanes_.push_front(&lane);
    in_line_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (in_flight_ < limit_) {
    ++in_flight_;
    return true;
  }
  lanes_.push_back(&lane);
  in_line_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

Lane* GlobalGate::leave() {
  Returner* returner = nullptr;
  {
    SpinGuard guard(lock_);
    if ((returners_.empty() && lanes_.empty()) || in_flight_ > limit_) {
      --in_flight_;
      over_.store(in_flight_ > limit_, std::memory_order_relaxed);
      return nullptr;
    }
    in_line_.fetch_sub(1, std::memory_order_relaxed);
    if (returners_.empty()) {
      Lane* lane = lanes_.front();
      lanes_.pop_front();
      lane->has_global_permit = true;
      return lane;
    }
    returner = returners_.front();
    returners_.pop_front();
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
    for (; in_flight_ < limit_ && !returners_.empty(); ++in_flight_) {
      returners.push_back(returners_.front());
      returners_.pop_front();
    }
    for (; in_flight_ < limit_ && !lanes_.empty(); ++in_flight_) {
      lanes.push_back(lanes_.front());
      lanes_.pop_front();
      lanes.back()->has_global_permit = true;
    }
    in_line_.fetch_sub(static_cast<std::uint32_t>(lanes.size() + returners.size()),
                       std::memory_order_relaxed);
  }
  for (Returner* returner : returners) returner->go_on();
  return lanes;
}

bool GlobalGate::enter_again(Returner& returner) {
  SpinGuard guard(lock_);
  if (in_flight_ < limit_) {
    ++in_flight_;
    return true;
  }
  returners_.push_back(&returner);
  in_line_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace keyway
