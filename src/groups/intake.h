// How tasks get into their lanes: limits are resolved, the global queue threshold is counted, and submits that find no
// room stand in line for it.
//
// Thread safety: every method from any thread. What must happen outside of its locks goes into the caller's Aftermath.
#pragma once

#include <memory>
#include <string_view>

#include "groups/admission.h"
#include "groups/aftermath.h"
#include "groups/limit_book.h"
#include "groups/room_line.h"
#include "lanes/lane_table.h"

namespace keyway {

class Intake {
 public:
  Intake(const detail::TaskOwner& owner, const GroupPolicy& policy, LaneTable& table,
         LimitBook& limits);

  // Puts a task into its lane; the lane's turn goes into `aftermath`. `pinned`: the lane, or null to find it by key.
  // kFull and kClosed: the task is not in.
  LaneTable::Entered enter(detail::TaskCore& task, std::size_t hash, Lane* pinned,
                           Aftermath& aftermath);
  static LaneRank rank_of(const detail::TaskCore& task) {
    if (!task.has_extras()) return {};
    return {.cost = task.extras().cost, .priority = task.extras().priority};
  }

  // Whether others may have to wait for more permits than one because it stands before them.
  static bool is_costly(const detail::TaskCore& task) { return rank_of(task).cost > 1; }

  // An operation on a lane that may change how many of its tasks could run.
  template <class Operation>
  auto change(Lane& lane, Operation operation);
  // A waiting task that gave its global permit back and holds its lane's does not count as able to run.
  void count_waiting(bool waits);
  // The task starts, or ends before: its place in the global queue is free.
  void give_up_place(detail::TaskCore& task, Aftermath& aftermath);

  // Pins the lane of a key; makes it if there is none.
  Lane& pin(std::string_view key, Aftermath& aftermath);
  // Tells the lane what limits its group has now. REQUIRES: it is pinned.
  void update_limits(Lane& lane, Aftermath& aftermath);
  // The same if a submit waits for room and the lane's limits were forgotten.
  void update_if_waited_for(Lane& lane, Aftermath& aftermath);
  void set_limits(Lane& lane, LaneLimits limits, LimitPart part, Aftermath& aftermath);
  void set_global_limit(std::uint32_t limit, Aftermath& aftermath);
  // Fewer may run in the lane than before, or a costlier task stands in it: tasks that wait may have to give permits
  // back.
  void room_shrank(std::string_view key, Aftermath& aftermath);

  // ---- submits that wait for room

  void wait_for_room(detail::TaskCore& task, detail::RoomWaiter& waiter, Aftermath& aftermath);
  // The same in the place of `old`, a task of the same group, which it returns. An entry without a task if `old` does not
  // stand in the line (any more): then `task` does not either.
  RoomLine::Entry wait_in_place_of(detail::TaskCore& old, detail::TaskCore& task,
                                   detail::RoomWaiter& waiter, Aftermath& aftermath);
  // Takes a task out of the line. An entry without a task if it does not stand there (any more).
  RoomLine::Entry stop_waiting(detail::TaskCore& task, Aftermath& aftermath);
  // All of them; their lanes are still pinned.
  std::vector<RoomLine::Entry> stop_all() { return room_line_.remove_all(); }
  std::size_t waiting_for_room() const { return room_line_.size(); }
  // What the costliest task that waits for room in `lane` costs; 0: none waits. The lane may be gone.
  std::uint32_t largest_cost_in_line(Lane* lane) {
    return room_line_.empty() ? 0 : room_line_.largest_cost(lane);
  }
  // Whether a submit that waits for room in this group must stand behind others.
  bool has_line(std::string_view key, std::size_t hash);

  // There is, or may be, room in this lane, and so perhaps in the global queue. REQUIRES: no lock is held. The lane may be
  // gone.
  void made_room(Lane& lane, Aftermath& aftermath) {
    if (!room_line_.empty()) [[unlikely]]
      let_in_after(lane, aftermath);
  }
  // The same for the global queue only.
  void made_global_room(Aftermath& aftermath) {
    if (admission_ != nullptr && !room_line_.empty()) [[unlikely]]
      let_all_in(aftermath);
  }

 private:
  bool is_ranked(const detail::TaskCore& task) const {
    return task.has_extras() && !rank_of(task).plain();
  }
  LaneTable::Entry enter_with_limits(detail::TaskCore& task, std::size_t hash,
                                     Aftermath& aftermath);
  LaneTable::Entered enter_weighed(detail::TaskCore& task, Aftermath& aftermath);
  // `queue_full`: set if it is the lane's own queue that has no room.
  LaneTable::Entry enter_counted(detail::TaskCore& task, Lane& lane, bool* queue_full = nullptr);
  bool globally_full();
  void made_room_in(std::string_view key, Aftermath& aftermath);
  void let_in_after(Lane& changed, Aftermath& aftermath);
  void let_in(Lane& lane, Aftermath& aftermath);
  void let_all_in(Aftermath& aftermath);
  const detail::TaskOwner& owner_;  // as the WaitGraph knows it
  LaneTable& table_;
  LimitBook& limits_;
  const std::unique_ptr<Admission> admission_;  // null: no global queue threshold
  RoomLine room_line_;
};

template <class Operation>
auto Intake::change(Lane& lane, Operation operation) {
  if (admission_ == nullptr) [[likely]]
    return operation();
  table_.pin(lane);  // it may become idle, and must stay to be asked
  auto result = [&] {
    MutexLock lock(admission_->mutex);
    const std::uint64_t before = lane.could_run();
    auto changed = operation();
    admission_->could_run += lane.could_run() - before;
    return changed;
  }();
  table_.unpin(lane);
  return result;
}

}  // namespace keyway
