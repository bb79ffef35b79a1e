#include "groups/intake.h"

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
  // From the moment the task is in, it may end at any time, and its names with it.
  const std::uint64_t changes = limits_.changes();
  LaneTable::Entry entry =
      pinned != nullptr && !pinned->limits_stale.load(std::memory_order_relaxed)
          ? LaneTable::enter(*pinned, task.waiter())
          : table_.enter(task.group_key(), hash, task.waiter(), limits_.uniform());
  if (entry.entered == LaneTable::Entered::kNeedsLimits) [[unlikely]]
    entry = enter_with_limits(task, hash, aftermath);
  if (entry.needs_turn != nullptr) {
    // A lane that was made with limits of a moment ago: no worker comes before its turn is posted.
    if (limits_.changes() != changes) [[unlikely]]
      update_limits(*entry.needs_turn, aftermath);
    aftermath.post(*entry.needs_turn);
  }
  return entry.entered;
}

// Into a lane that must be made, or whose limits have changed.
LaneTable::Entry Intake::enter_with_limits(TaskCore& task, std::size_t hash, Aftermath& aftermath) {
  const std::string key(task.group_key());
  const LaneLimits limits = limits_.resolve(key);  // user code: under no lock
  const LaneTable::Entry entry = table_.enter(key, hash, task.waiter(), &limits);
  if (entry.has_new_limits) {  // lower than those that were forgotten, or higher
    room_shrank(key, aftermath);
    made_room(aftermath);
  }
  return entry;
}

// A task with a cost or a priority, or a task that the global queue counts.
LaneTable::Entered Intake::enter_weighed(TaskCore& task, Aftermath& aftermath) {
  const bool costly = is_costly(task);
  Lane& lane = pin(task.group_key(), aftermath);
  const LaneTable::Entry entry = admission_ != nullptr
                                     ? enter_counted(task, lane)
                                     : LaneTable::enter(lane, task.waiter(), /*ranked=*/true);
  if (entry.needs_turn != nullptr) aftermath.post(lane);
  if (costly) room_shrank(lane.key(), aftermath);
  table_.unpin(lane);
  return entry.entered;
}

// REQUIRES: the lane is pinned.
LaneTable::Entry Intake::enter_counted(TaskCore& task, Lane& lane) {
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
  made_room(aftermath);
}

void Intake::count_waiting(bool waits) {
  if (admission_ == nullptr) return;
  MutexLock lock(admission_->mutex);
  waits ? --admission_->could_run : ++admission_->could_run;
}

// ---- limits

Lane& Intake::pin(std::string_view key, Aftermath& aftermath) {
  const std::size_t hash = LaneTable::hash(key);
  Lane* lane = table_.pin_existing(key, hash);
  if (lane == nullptr) {
    const std::uint64_t changes = limits_.changes();
    lane = &table_.pin(key, hash, limits_.resolve(key));
    if (limits_.changes() != changes) update_limits(*lane, aftermath);
    return *lane;
  }
  if (lane->limits_stale.exchange(false, std::memory_order_relaxed)) {
    set_limits(*lane, limits_.resolve(key), aftermath);
  }
  return *lane;
}

// Two changes at once may come here in either order: the last one to come must tell the newest limits.
void Intake::update_limits(Lane& lane, Aftermath& aftermath) {
  std::uint64_t told = 0;
  do {
    told = limits_.changes();
    set_limits(lane, limits_.resolve(lane.key()), aftermath);
  } while (limits_.changes() != told);
}

void Intake::set_limits(Lane& lane, LaneLimits limits, Aftermath& aftermath) {
  if (change(lane, [&] { return lane.set_limits(limits); })) aftermath.post(lane);
  room_shrank(lane.key(), aftermath);
  made_room(lane, aftermath);
}

void Intake::set_global_limit(std::uint32_t limit, Aftermath& aftermath) {
  if (admission_ != nullptr) {
    MutexLock lock(admission_->mutex);
    admission_->limit = limit;
  }
  made_room(aftermath);
}

void Intake::room_shrank(std::string_view key, Aftermath& aftermath) {
  if (WaitGraph::instance().room_shrank(owner_, key)) made_room(aftermath);
}

// ---- waiting for room

void Intake::wait_for_room(TaskCore& task, detail::RoomWaiter& waiter, Aftermath& aftermath) {
  task.set_awaits_room(true);
  Lane& lane = pin(task.group_key(), aftermath);
  table_.pin(lane);  // for here; the first pin goes with the entry
  room_line_.add({&task, &lane, &waiter});
  made_room(lane, aftermath);
  table_.unpin(lane);
}

RoomLine::Entry Intake::stop_waiting(TaskCore& task, Aftermath& aftermath) {
  const RoomLine::Entry entry = room_line_.remove(task);
  if (entry.task == nullptr) return entry;
  task.set_awaits_room(false);
  made_room(*entry.lane, aftermath);  // the next one may cost less
  table_.unpin(*entry.lane);
  return entry;
}

bool Intake::globally_full() {
  MutexLock lock(admission_->mutex);
  return admission_->full();
}

void Intake::let_all_in(Aftermath& aftermath) {
  if (admission_ != nullptr && globally_full()) return;
  for (Lane* lane : room_line_.lanes()) let_in(*lane, aftermath);
}

// Lets in as many as there is room for.
void Intake::let_in(Lane& lane, Aftermath& aftermath) {
  while (true) {
    RoomLine::Entry entry;
    bool costly = false;
    {
      MutexLock lock(room_line_.mutex);
      const RoomLine::Entry* first = room_line_.first(&lane);
      if (first == nullptr) return;
      entry = *first;
      costly = is_costly(*entry.task);
      const LaneTable::Entry entered =
          admission_ != nullptr
              ? enter_counted(*entry.task, lane)
              : LaneTable::enter(lane, entry.task->waiter(), is_ranked(*entry.task));
      if (entered.entered != LaneTable::Entered::kIn) return;
      entry.task->set_awaits_room(false);
      room_line_.pop_first(&lane);
      if (entered.needs_turn != nullptr) aftermath.post(*entered.needs_turn);
    }
    aftermath.tell(*entry.waiter, true);
    if (costly) room_shrank(lane.key(), aftermath);
    table_.unpin(lane);
  }
}

}  // namespace keyway
