#include "lanes/lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "keyway/detail/block_pool.h"

namespace keyway {

LaneCounts& LaneCounts::operator+=(const LaneCounts& other) {
  entered += other.entered;
  refused += other.refused;
  drained += other.drained;
  succeeded += other.succeeded;
  failed += other.failed;
  cancelled += other.cancelled;
  expired += other.expired;
  running += other.running;
  waiting += other.waiting;
  return *this;
}

Lane::Lane(LaneOwner& owner, std::string_view key, std::size_t hash, LaneLimits limits)
    : careful_(limits.waiting != kNoLimit),
      waiting_limit_(limits.waiting),
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

Lane::Entered Lane::enter_carefully(Waiter& waiter, bool ranked) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  if (closed_) return Entered::kClosed;
  if (ranked) begin_ranks();
  if (is_full(waiter)) {
    forget_ranks_if_empty();
    return Entered::kFull;
  }
  if (ranks_ == nullptr) {
    const std::uint64_t limit = waiting_limit_.load(std::memory_order_relaxed);
    const std::uint64_t inside = waiting() + 1;  // with this one
    const std::uint64_t more = limit > inside ? limit - inside : 0;
    sure_room_ = static_cast<std::uint16_t>(std::min<std::uint64_t>(more, UINT16_MAX));
    return push(waiter);
  }
  insert_ranked(waiter);
  ++entered_;
  if (turn_out_ && !stalled_) return Entered::kTurnIsOnItsWay;
  // Before it stalled somebody may have waited who costs more, or has to stand behind.
  return place_turn() ? Entered::kNeedsTurn : Entered::kTurnIsOnItsWay;
}

// Whoever waits beyond the room that there is, is held back by this lane, not by a layer above it.
bool Lane::is_full(const Waiter& newcomer) const {
  const std::uint64_t waiting_limit = waiting_limit_.load(std::memory_order_relaxed);
  if (waiting_limit == kNoLimit) return false;
  if (ranks_ != nullptr) return is_full_ranked(newcomer);
  const std::uint64_t room = limit_now() > running_ ? limit_now() - running_ : 0;
  return waiting() >= room + waiting_limit;
}

// Takes the newcomers in if it must, to see whether `wanted` wait, one or two. If not, the turn ends: with
// nobody, or with the one who is taken next.
bool Lane::at_least(int wanted) {
  const auto there_are = [&]() KEYWAY_REQUIRES(dispatch_) {
    return wanted == 1 ? !taken_in_.empty() : taken_in_.has_more_than_one();
  };
  if (there_are()) return true;
  SpinGuard intake(intake_);
  taken_in_.append(inbox_);
  turn_out_ = there_are();
  return turn_out_;
}

bool Lane::take_up_turn() {
  if (ranks_ != nullptr) {
    SpinGuard intake(intake_);
    return stalled_ && place_turn();
  }
  if (!stalled_ || running_ >= limit_now()) return false;
  stalled_ = false;
  return at_least(1);
}

// Both build what they return in place: to copy it costs more than all the rest, because it has just been
// written in pieces.
LaneTake Lane::take() {
  LaneTake taken;
  SpinGuard dispatch(dispatch_);
  if (ranks_ != nullptr) [[unlikely]] {
    SpinGuard intake(intake_);
    take_ranked(/*has_turn=*/true, taken);
    forget_ranks_if_empty();
    return taken;
  }
  if (running_ >= limit_now()) {
    stalled_ = true;
    return taken;
  }
  const bool last_permit = running_ + 1 == limit_;
  const bool more = at_least(last_permit ? 1 : 2);
  if (taken_in_.empty()) {
    taken.idle = running_ == 0;
    return taken;
  }
  ++running_;
  stalled_ = last_permit;
  pop(taken);
  taken.post_turn = more && !stalled_;
  return taken;
}

LaneTake Lane::finish(LaneOutcome outcome, bool go_on, std::uint32_t units) {
  LaneTake taken;
  SpinGuard dispatch(dispatch_);
  count(outcome);
  if (ranks_ != nullptr) [[unlikely]] {
    finish_ranked(go_on, units, taken);
    return taken;
  }
  if (go_on && running_ <= limit_now()) {
    const bool stood_in_line = !taken_in_.empty();
    if (stalled_) stalled_ = at_least(1);
    if (!taken_in_.empty()) {
      pop(taken);
      taken.stood_in_line = stood_in_line;
      return taken;
    }
  }
  --running_;
  taken.post_turn = take_up_turn();
  taken.idle = running_ == 0 && !taken.post_turn && taken_in_.empty();
  return taken;
}

Lane::Withdrawn Lane::withdraw(Waiter& waiter, bool expired) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  if (!WaiterList::linked(waiter)) return {};
  ++(expired ? rare().expired : rare().withdrawn);
  if (ranks_ == nullptr) {
    WaiterList::unlink(waiter);
    return {.withdrawn = true};
  }
  remove_ranked(waiter);
  // The next one may cost less.
  return {.withdrawn = true, .post_turn = stalled_ && place_turn()};
}

Lane::Withdrawn Lane::replace(Waiter& old, Waiter& newcomer) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  if (closed_ || !WaiterList::linked(old)) return {};
  ++rare().withdrawn;
  ++entered_;
  if (owner_.rank_of(old) == owner_.rank_of(newcomer)) {
    WaiterList::replace(old, newcomer);
    return {.withdrawn = true};
  }
  begin_ranks();
  remove_ranked(old);
  insert_ranked(newcomer);
  return {.withdrawn = true, .post_turn = stalled_ && place_turn()};
}

Waiter* Lane::drain(bool (*stays)(Waiter&)) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  rare().stop_up_to = started_;
  WaiterList all;
  if (ranks_ != nullptr) gather_ranked(all);
  all.append(taken_in_);
  all.append(inbox_);
  Waiter* first = nullptr;
  Waiter** link = &first;
  std::uint64_t returners = std::exchange(rare().returners, 0);
  while (!all.empty()) {
    Waiter& waiter = all.pop_front();
    const bool returns = returners > 0;
    if (returns) --returners;
    if (stays(waiter)) {
      taken_in_.push_back(waiter);
      if (returns) {
        ++rare().returners;
        rare().last_returner = &waiter;
      }
      if (ranks_ != nullptr) count_cost(owner_.rank_of(waiter).cost, returns);
      continue;
    }
    *link = &waiter;
    link = &waiter.next;
    ++rare().drained;
  }
  *link = nullptr;
  forget_ranks_if_empty();
  return first;
}

bool Lane::give_back(std::uint32_t units) {
  SpinGuard dispatch(dispatch_);
  give_back_units(units);
  ++rare().given_back;
  return take_up_turn();
}

Lane::Entered Lane::enter_again(Waiter& waiter) {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  // A task that waits again and again does not overtake a costlier one that returns.
  if (rare().returners > 0) {
    WaiterList::insert_before(*rare().last_returner->next, waiter);
  } else {
    taken_in_.push_front(waiter);
  }
  rare().last_returner = &waiter;
  ++entered_;
  sure_room_ = 0;
  ++rare().came_back;
  ++rare().returners;
  const LaneRank rank = owner_.rank_of(waiter);
  if (!rank.plain()) begin_ranks();
  if (ranks_ != nullptr) {
    count_cost(rank.cost, /*returns=*/true);
    if (turn_out_ && !stalled_) return Entered::kTurnIsOnItsWay;
    return place_turn() ? Entered::kNeedsTurn : Entered::kTurnIsOnItsWay;
  }
  if (!turn_out_) {
    turn_out_ = true;
    return Entered::kNeedsTurn;
  }
  // In a paused lane the turn may have stalled with nobody running who would take it up.
  if (!stalled_ || running_ >= limit_now()) return Entered::kTurnIsOnItsWay;
  stalled_ = false;
  return Entered::kNeedsTurn;
}

void Lane::count(LaneOutcome outcome) {
  if (outcome == LaneOutcome::kFailed) ++rare().failed;
  if (outcome == LaneOutcome::kCancelled) ++rare().cancelled;
}

Lane::Changed Lane::set_limits(LaneLimits limits, LimitPart part) {
  SpinGuard dispatch(dispatch_);
  // The limits that the lane was made with are older than all that are looked up once it is there.
  const std::uint64_t newest = rare_ == nullptr ? 0 : rare_->limits_version;
  if (part != LimitPart::kRunning) {
    if (limits.version < newest) return {};
    if (limits.version > newest) rare().limits_version = limits.version;
  }
  const std::uint32_t before = limit_;
  {
    SpinGuard intake(intake_);
    if (part != LimitPart::kWaiting) limit_ = limits.running;
    if (part != LimitPart::kRunning) {
      waiting_limit_.store(limits.waiting, std::memory_order_relaxed);
      careful_ = ranks_ != nullptr || limits.waiting != kNoLimit;
    }
    sure_room_ = 0;
  }
  return {.post_turn = take_up_turn(), .lowered = limit_ < before};
}

bool Lane::set_paused(bool paused) {
  SpinGuard dispatch(dispatch_);
  paused_ = paused;
  return take_up_turn();
}

LaneLimits Lane::limits() const {
  SpinGuard dispatch(dispatch_);
  return {.running = limit_, .waiting = waiting_limit_.load(std::memory_order_relaxed)};
}

Lane::View Lane::view(const Waiter* waiter) const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  View view{
      .counts = counts_locked(),
      .limits = {.running = limit_, .waiting = waiting_limit_.load(std::memory_order_relaxed)},
      .paused = paused_};
  const Waiter* first = nullptr;
  std::uint64_t position = 0;
  each_in_order([&](const Waiter& other) {
    if (first == nullptr) first = &other;
    ++position;
    if (&other == waiter) view.position = position;
    return waiter != nullptr && view.position == 0 && position < kFurthest;
  });
  const std::uint32_t units = first == nullptr || ranks_ == nullptr ? 1 : units_of(*first);
  view.full = first != nullptr && std::uint64_t{running_} + units > limit_;
  return view;
}

LaneCounts Lane::counts() const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  return counts_locked();
}

LaneCounts Lane::counts_locked() const {
  const Rare rare = rare_ == nullptr ? Rare{} : *rare_;
  LaneCounts counts{
      .entered = entered_ - rare.came_back,
      .drained = rare.drained,
      .succeeded = started_ - rare.given_back - tasks_running() - rare.failed - rare.cancelled,
      .failed = rare.failed,
      .cancelled = rare.cancelled + rare.withdrawn,
      .expired = rare.expired,
      .running = tasks_running(),
      .waiting = waiting(),
  };
  return counts += rare.outside;
}

bool Lane::retire(LaneCounts& sum) const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  if (running_ > 0 || turn_out_ || away() > 0) return false;
  if (rare_ == nullptr) {
    sum.entered += entered_;
    sum.succeeded += started_;
  } else {
    sum += counts_locked();
  }
  return true;
}

std::uint64_t Lane::could_run() const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  const std::uint64_t returners = rare_ == nullptr ? 0 : rare_->returners;
  const std::uint64_t able = paused_ ? returners : waiting();
  if (ranks_ != nullptr) {
    return tasks_running() + fitting(able, paused_ ? ranks_->returning : ranks_->queued).count;
  }
  const std::uint64_t room = running_ >= limit_ ? 0 : limit_ - running_;
  return running_ + std::min(room, able);
}

bool Lane::idle() const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  // A turn that stalled in a paused lane sends nobody.
  return running_ == 0 && away() == 0 && (!turn_out_ || (stalled_ && waiting() == 0));
}

bool Lane::empty() const {
  std::uint64_t entered = 0;
  return empty(entered);
}

bool Lane::empty(std::uint64_t& entered) const {
  SpinGuard dispatch(dispatch_);
  SpinGuard intake(intake_);
  entered += entered_ - (rare_ == nullptr ? 0 : rare_->came_back);
  return running_ == 0 && away() == 0 && waiting() == 0;
}

}  // namespace keyway
