#include "lanes/lane.h"

#include <algorithm>
#include <cstring>

#include "keyway/detail/block_pool.h"

namespace keyway {

LaneCounts& LaneCounts::operator+=(const LaneCounts& other) {
  entered += other.entered;
  refused += other.refused;
  drained += other.drained;
  succeeded += other.succeeded;
  failed += other.failed;
  cancelled += other.cancelled;
  running += other.running;
  waiting += other.waiting;
  return *this;
}

Lane::Lane(LaneOwner& owner, std::string_view key, std::size_t hash, LaneLimits limits)
    : waiting_limit_(limits.waiting),
      limit_(limits.running),
      owner_(owner),
      hash_(hash),
      key_size_(static_cast<std::uint32_t>(key.size())) {
  char* text = short_key_;
  if (key.size() > sizeof(short_key_)) {
    text = static_cast<char*>(detail::allocate_block(key.size()));
  }
  std::memcpy(text, key.data(), key.size());
  key_ = text;
}

Lane::~Lane() {
  if (key_ != short_key_) detail::deallocate_block(const_cast<char*>(key_), key_size_);
}

Lane::Entered Lane::enter_bounded(Waiter& waiter) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  // Whoever is inside beyond the limit is held back by this lane, not by a layer above it.
  const std::uint64_t inside = waiting() + running_;
  const std::uint64_t waiting_limit = waiting_limit_.load(std::memory_order_relaxed);
  if (waiting_limit != kNoLimit && inside >= limit_ + waiting_limit && !closed_) {
    ++refused_;
    return Entered::kFull;
  }
  return push(waiter);
}

// Whether more than the one who is taken next wait. If not, the turn ends with that one.
bool Lane::more_than_one() {
  if (taken_in_.has_more_than_one()) return true;
  SpinGuard intake(intake_);
  taken_in_.append(inbox_);
  turn_out_ = taken_in_.has_more_than_one();
  return turn_out_;
}

LaneTake Lane::pop() { return {.waiter = &taken_in_.pop_front(), .number = ++started_}; }

LaneTake Lane::take() {
  SpinGuard dispatch(dispatch_);
  if (running_ >= limit_) {
    stalled_ = true;
    return {};
  }
  const bool more = more_than_one();
  if (taken_in_.empty()) return {.idle = running_ == 0};
  ++running_;
  stalled_ = more && running_ >= limit_;
  LaneTake taken = pop();
  taken.post_turn = more && !stalled_;
  return taken;
}

LaneTake Lane::finish(LaneOutcome outcome, bool go_on) {
  SpinGuard dispatch(dispatch_);
  count(outcome);
  if (go_on && running_ <= limit_) {
    if (stalled_) stalled_ = more_than_one();
    if (!taken_in_.empty()) return pop();
  }
  --running_;
  if (!stalled_) return {.idle = running_ == 0 && taken_in_.empty()};
  if (running_ >= limit_) return {};
  stalled_ = false;
  return {.post_turn = true};
}

bool Lane::withdraw(Waiter& waiter) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  if (!WaiterList::linked(waiter)) return false;
  WaiterList::unlink(waiter);
  ++withdrawn_;
  ++cancelled_;
  return true;
}

Waiter* Lane::drain() {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  stop_up_to_.store(started_, std::memory_order_relaxed);
  taken_in_.append(inbox_);
  Waiter* first = nullptr;
  Waiter** link = &first;
  while (!taken_in_.empty()) {
    Waiter& waiter = taken_in_.pop_front();
    *link = &waiter;
    link = &waiter.next;
    ++drained_;
  }
  *link = nullptr;
  return first;
}

Lane::GivenBack Lane::give_back_for(const Waiter& queued) {
  SpinGuard dispatch(dispatch_);
  {
    SpinGuard intake(intake_);
    if (!WaiterList::linked(queued)) return {};
  }
  --running_;
  if (!stalled_ || running_ >= limit_) return {.given_back = true};
  stalled_ = false;
  return {.given_back = true, .post_turn = true};
}

Lane::Entered Lane::enter_in_front(Waiter& waiter) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  taken_in_.push_front(waiter);
  ++entered_;
  ++came_back_;
  if (turn_out_) return Entered::kTurnIsOnItsWay;
  turn_out_ = true;
  return Entered::kNeedsTurn;
}

void Lane::count(LaneOutcome outcome) {
  switch (outcome) {
    case LaneOutcome::kSucceeded:
      ++succeeded_;
      break;
    case LaneOutcome::kFailed:
      ++failed_;
      break;
    case LaneOutcome::kCancelled:
      ++cancelled_;
      break;
  }
}

bool Lane::set_limits(LaneLimits limits) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  limit_ = limits.running;
  waiting_limit_.store(limits.waiting, std::memory_order_relaxed);
  if (!stalled_ || running_ >= limit_) return false;
  stalled_ = false;
  return true;
}

LaneLimits Lane::limits() const {
  SpinGuard dispatch(dispatch_);
  return {.running = limit_, .waiting = waiting_limit_.load(std::memory_order_relaxed)};
}

LaneCounts Lane::counts() const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  return {
      .entered = entered_ - came_back_,
      .refused = refused_,
      .drained = drained_,
      .succeeded = succeeded_,
      .failed = failed_,
      .cancelled = cancelled_,
      .running = running_,
      .waiting = waiting(),
  };
}

std::uint64_t Lane::could_run() const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  return std::min<std::uint64_t>(limit_, waiting() + running_);
}

std::uint64_t Lane::permits_in_the_way(const Waiter& queued) const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  return WaiterList::linked(queued) && running_ >= limit_ ? running_ : 0;
}

bool Lane::idle() const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  return running_ == 0 && !turn_out_;
}

}  // namespace keyway
