#include "groups/intake.h"

#include "groups/group_state.h"
#include "runtime/wait_graph.h"

namespace keyway {

using detail::TaskCore;

namespace {

std::unique_ptr<Admission> make_admission(const GroupPolicy& policy) {
  if (policy.global_max_in_flight == kUnlimited || policy.global_queue_threshold == kUnlimited) {
    return nullptr;
  }
  return std::make_unique<Admission>(static_cast<std::uint32_t>(policy.global_max_in_flight),
                                     static_cast<std::uint32_t>(policy.global_queue_threshold));
}

}  // namespace

Intake::Intake(const detail::TaskOwner& owner, const GroupPolicy& policy, LaneTable& table,
               LimitBook& limits)
    : owner_(owner), table_(table), limits_(limits), admission_(make_admission(policy)) {}

// ---- entering a lane

LaneTable::Entered Intake::enter(TaskCore& task, std::size_t hash, Lane* pinned,
                                 Aftermath& aftermath) {
  if (admission_ != nullptr || is_ranked(task)) [[unlikely]]
    return enter_weighed(task, aftermath);
  // Once the task has entered, it may end and be freed at any time, with its key and id.
  LaneTable::Entry entry =
      pinned != nullptr ? LaneTable::enter(*pinned, task.waiter())
                        : table_.enter(task.group_key(), hash, task.waiter(), limits_.uniform());
  if (entry.entered == LaneTable::Entered::kNeedsLimits) [[unlikely]]
    entry = enter_with_limits(task, hash);
  if (entry.needs_turn != nullptr) aftermath.post(*entry.needs_turn);
  return entry.entered;
}

// For a lane that does not exist.
LaneTable::Entry Intake::enter_with_limits(TaskCore& task, std::size_t hash) {
  while (true) {
    const LaneLimits limits = limits_.resolve(task.group_key());  // user code: under no lock
    const LaneTable::Entry entry = table_.enter(task.group_key(), hash, task.waiter(), &limits);
    if (entry.entered != LaneTable::Entered::kNeedsLimits) return entry;
  }
}

// For a task with a cost or a priority, and for every task if there is a global queue threshold.
LaneTable::Entered Intake::enter_weighed(TaskCore& task, Aftermath& aftermath) {
  const bool costly = is_costly(task);
  Lane& lane = pin(task.group_key());
  const LaneTable::Entry entry = admission_ != nullptr
                                     ? enter_counted(task, lane)
                                     : LaneTable::enter(lane, task.waiter(), /*ranked=*/true);
  if (entry.needs_turn != nullptr) aftermath.post(lane);
  if (costly && lane.take_need_grew()) room_shrank(lane.key(), aftermath);
  table_.unpin(lane);
  return entry.entered;
}

// REQUIRES: the lane is pinned.
LaneTable::Entry Intake::enter_counted(TaskCore& task, Lane& lane, bool* queue_full) {
  MutexLock lock(admission_->mutex);
  if (admission_->full()) {
    task.set_rejection(RejectionReason::kGlobalQueueFull);
    return {.entered = LaneTable::Entered::kFull};
  }
  const bool takes_place = admission_->limit_reached();
  const std::uint64_t before = lane.could_run();
  task.set_has_place(takes_place);
  const LaneTable::Entry entry = LaneTable::enter(lane, task.waiter(), is_ranked(task));
  if (entry.entered == LaneTable::Entered::kIn) {
    admission_->could_run += lane.could_run() - before;
    if (takes_place) ++admission_->places;
  } else {
    task.set_has_place(false);
    if (queue_full != nullptr) *queue_full = true;
    task.set_rejection(RejectionReason::kQueueFull);
  }
  return entry;
}

void Intake::give_up_place(TaskCore& task, Aftermath& aftermath) {
  if (admission_ == nullptr || !task.has_place()) return;
  {
    MutexLock lock(admission_->mutex);
    --admission_->places;
    task.set_has_place(false);
  }
  made_global_room(aftermath);
}

void Intake::count_waiting(bool waits) {
  if (admission_ == nullptr) return;
  MutexLock lock(admission_->mutex);
  waits ? --admission_->could_run : ++admission_->could_run;
}

// ---- limits

Lane& Intake::pin(std::string_view key) {
  const std::size_t hash = LaneTable::hash(key);
  Lane* lane = table_.pin_existing(key, hash);
  while (lane == nullptr) lane = table_.pin(key, hash, limits_.resolve(key));
  return *lane;
}

void Intake::update_limits(Lane& lane, Aftermath& aftermath) {
  const LaneLimits limits = limits_.resolve(lane.key());
  limits_changed(lane, set_limits(lane, limits, lane.limits_of_policy()), aftermath);
}

Lane::Changed Intake::set_limits(Lane& lane, LaneLimits limits, LimitPart part) {
  return change(lane, [&] { return lane.set_limits(limits, part); });
}

void Intake::limits_changed(Lane& lane, Lane::Changed changed, Aftermath& aftermath) {
  if (changed.post_turn) aftermath.post(lane);
  if (changed.lowered) room_shrank(lane.key(), aftermath);
  made_room(lane, aftermath);
}

void Intake::set_global_limit(std::uint32_t limit) {
  if (admission_ == nullptr) return;
  MutexLock lock(admission_->mutex);
  admission_->limit = limit;
}

void Intake::room_shrank(std::string_view key, Aftermath& aftermath) {
  if (WaitGraph::instance().room_shrank(owner_, key)) made_room_in(key, aftermath);
}

// ---- waiting for room

void Intake::wait_for_room(TaskCore& task, detail::RoomWaiter& waiter, Aftermath& aftermath) {
  task.set_awaits_room(true);
  Lane& lane = pin(task.group_key());
  table_.pin(lane);  // until the end of this function; the line's entry owns the first pin
  const bool costly = is_costly(task) && rank_of(task).cost > room_line_.largest_cost(&lane);
  room_line_.add({&task, &lane, &waiter});
  made_room(lane, aftermath);
  if (costly) room_shrank(lane.key(), aftermath);  // tasks behind it in the line need more permits
  table_.unpin(lane);
}

RoomLine::Entry Intake::wait_in_place_of(TaskCore& old, TaskCore& task, detail::RoomWaiter& waiter,
                                         Aftermath& aftermath) {
  Lane* lane = table_.pin_existing(task.group_key(), LaneTable::hash(task.group_key()));
  if (lane == nullptr) return {};
  task.set_awaits_room(true);
  const RoomLine::Entry replaced = room_line_.replace(old, {&task, lane, &waiter});
  if (replaced.task != nullptr) {
    old.set_awaits_room(false);
    made_room(*lane, aftermath);                               // `task` may cost less than `old`
    if (is_costly(task)) room_shrank(lane->key(), aftermath);  // or more
  }
  table_.unpin(*lane);  // the line's entry keeps the pin of `old`
  return replaced;
}

// A task joins the line before its wait is checked, and room is made before the line is told of it. So that there is a line
// says nothing: the wait of a task behind it could be refused although the queue has room. The line is tried here.
bool Intake::stays_in_line(TaskCore& task, std::size_t hash, Aftermath& aftermath) {
  Lane* lane = table_.pin_existing(task.group_key(), hash);
  bool stays = false;
  if (admission_ == nullptr) {
    stays = lane != nullptr && let_in(lane, aftermath);
  } else {
    if (lane != nullptr) room_line_.queue_has_room(lane);
    stays = let_in(nullptr, aftermath);
    if (stays) task.set_rejection(RejectionReason::kGlobalQueueFull);
    stays = stays || (lane != nullptr && room_line_.has_full_queue(lane));
  }
  if (lane != nullptr) table_.unpin(*lane);
  return stays;
}

RoomLine::Entry Intake::stop_waiting(TaskCore& task, Aftermath& aftermath) {
  const RoomLine::Entry entry = room_line_.remove(task);
  if (entry.task == nullptr) return entry;
  task.set_awaits_room(false);
  made_room(*entry.lane, aftermath);  // the next task in the line may cost less
  table_.unpin(*entry.lane);
  return entry;
}

void Intake::made_room_in(std::string_view key, Aftermath& aftermath) {
  if (room_line_.empty()) return;
  Lane* lane = table_.pin_existing(key, LaneTable::hash(key));
  if (lane == nullptr) return;
  made_room(*lane, aftermath);
  table_.unpin(*lane);
}

void Intake::let_in_after(Lane& changed, Aftermath& aftermath) {
  if (admission_ != nullptr) room_line_.queue_has_room(&changed);
  let_in(admission_ != nullptr ? nullptr : &changed, aftermath);
}

// Lets in the tasks that wait for `lane` until it is full. Null: those of all lanes, in the order of
// arrival, until the global queue is full. REQUIRES: with null there is a global queue. True: the queue is full, and tasks
// stay in the line.
bool Intake::let_in(Lane* lane, Aftermath& aftermath) {
  LetIn last = LetIn::kNobodyWaits;
  do {
    last = let_first_in(lane, aftermath);
  } while (last == LetIn::kOne || last == LetIn::kPassedOver);
  return last == LetIn::kQueueIsFull;
}

Intake::LetIn Intake::let_first_in(Lane* lane, Aftermath& aftermath) {
  RoomLine::Entry entry;
  bool costly = false;
  {
    MutexLock lock(room_line_.mutex);
    const RoomLine::Entry* first =
        lane != nullptr ? room_line_.first(lane) : room_line_.first_of_candidates();
    if (first == nullptr) return LetIn::kNobodyWaits;
    entry = *first;
    costly = is_costly(*entry.task);
    bool own_queue_full = false;
    const LaneTable::Entry entered =
        admission_ != nullptr
            ? enter_counted(*entry.task, *entry.lane, &own_queue_full)
            : LaneTable::enter(*entry.lane, entry.task->waiter(), is_ranked(*entry.task));
    if (own_queue_full) {
      room_line_.queue_was_full(entry.lane);
      return LetIn::kPassedOver;  // other lanes may have room
    }
    if (entered.entered != LaneTable::Entered::kIn) return LetIn::kQueueIsFull;
    entry.task->set_awaits_room(false);
    room_line_.pop_first(entry.lane);
    if (entered.needs_turn != nullptr) aftermath.post(*entered.needs_turn);
  }
  aftermath.tell_let_in(*entry.waiter, *entry.task);
  if (costly && entry.lane->take_need_grew()) room_shrank(entry.lane->key(), aftermath);
  table_.unpin(*entry.lane);
  return LetIn::kOne;
}

}  // namespace keyway
