#include "groups/global_gate.h"

namespace keyway {

bool GlobalGate::enter(Lane& lane) {
  if (lane.has_global_permit) {
    lane.has_global_permit = false;
    return true;
  }
  SpinGuard guard(lock_);
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
    if (returners_.empty() && lanes_.empty()) {
      --in_flight_;
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
