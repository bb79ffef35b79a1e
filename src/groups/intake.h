// Puts tasks into their lanes: resolves limits, counts the global queue, and keeps the line of
// submits that wait for room.
//
// Thread safety: every method from any thread. Posts go into the caller's Aftermath, outside of the
// locks.
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

  // Whether a task behind it in the queue may need more than one permit before it can run.
  static bool is_costly(const detail::TaskCore& task) { return rank_of(task).cost > 1; }

  // Performs an operation that may change how many tasks of the lane could run, and counts the
  // change.
  template <class Operation>
  auto change(Lane& lane, Operation operation);
  // A waiting task that holds only its lane's permit does not count as able to run. `waits`: it
  // begins to wait.
  void count_waiting(bool waits);
  // Frees the place in the global queue of a task that starts, or ends without having run.
  void give_up_place(detail::TaskCore& task, Aftermath& aftermath);

  // Pins the lane of a key; makes it if there is none.
  Lane& pin(std::string_view key);
  // Sets the lane's limits to those of its group. REQUIRES: the lane is pinned.
  void update_limits(Lane& lane, Aftermath& aftermath);
  // The same in two steps: the second is to be called under no lock.
  Lane::Changed set_limits(Lane& lane, LaneLimits limits, LimitPart part);
  void limits_changed(Lane& lane, Lane::Changed changed, Aftermath& aftermath);
  // The caller calls made_global_room() next.
  void set_global_limit(std::uint32_t limit);
  // To be called after the lane's limit went down or a costlier task entered its queue: waiting
  // tasks may have to give permits back (see WaitGraph::room_shrank()).
  void room_shrank(std::string_view key, Aftermath& aftermath);

  // ---- submits that wait for room

  void wait_for_room(detail::TaskCore& task, detail::RoomWaiter& waiter, Aftermath& aftermath);
  // Puts `task` into the place of `old`, a task of the same group, and returns the entry of `old`.
  // If `old` is not in the line, `task` does not enter it, and the entry has no task.
  RoomLine::Entry wait_in_place_of(detail::TaskCore& old, detail::TaskCore& task,
                                   detail::RoomWaiter& waiter, Aftermath& aftermath);
  // Takes a task out of the line. The entry has no task if the task is not in the line.
  RoomLine::Entry stop_waiting(detail::TaskCore& task, Aftermath& aftermath);
  // Takes all tasks out of the line. The caller unpins their lanes.
  std::vector<RoomLine::Entry> stop_all() { return room_line_.remove_all(); }
  std::size_t waiting_for_room() const { return room_line_.size(); }
  // The maximum cost of the tasks that wait for room in `lane`; 0: none waits. The lane may be
  // freed.
  std::uint32_t largest_cost_in_line(Lane* lane) {
    return room_line_.empty() ? 0 : room_line_.largest_cost(lane);
  }
  // Whether submits wait that `task` would overtake: for room in its group, or in the global queue. Lets those in first that
  // need not wait any longer. REQUIRES: no lock is held.
  bool has_line(detail::TaskCore& task, std::size_t hash, Aftermath& aftermath) {
    return !room_line_.empty() && stays_in_line(task, hash, aftermath);
  }

  // Lets waiting tasks in after an operation that may have made room in this lane or in the global
  // queue. The lane may be freed. REQUIRES: no lock is held.
  void made_room(Lane& lane, Aftermath& aftermath) {
    if (!room_line_.empty()) [[unlikely]]
      let_in_after(lane, aftermath);
  }
  // The same for the global queue only.
  void made_global_room(Aftermath& aftermath) {
    if (admission_ != nullptr && !room_line_.empty()) [[unlikely]]
      let_in(nullptr, aftermath);
  }

 private:
  bool is_ranked(const detail::TaskCore& task) const {
    return task.has_extras() && !rank_of(task).plain();
  }
  LaneTable::Entry enter_with_limits(detail::TaskCore& task, std::size_t hash);
  LaneTable::Entered enter_weighed(detail::TaskCore& task, Aftermath& aftermath);
  // `queue_full`: set if the lane's own queue is full.
  LaneTable::Entry enter_counted(detail::TaskCore& task, Lane& lane, bool* queue_full = nullptr);
  void made_room_in(std::string_view key, Aftermath& aftermath);
  void let_in_after(Lane& changed, Aftermath& aftermath);
  bool stays_in_line(detail::TaskCore& task, std::size_t hash, Aftermath& aftermath);
  bool let_in(Lane* lane, Aftermath& aftermath);
  enum class LetIn { kOne, kPassedOver, kQueueIsFull, kNobodyWaits };
  LetIn let_first_in(Lane* lane, Aftermath& aftermath);

  const detail::TaskOwner& owner_;  // identifies the engine in the WaitGraph
  LaneTable& table_;
  LimitBook& limits_;
  const std::unique_ptr<Admission> admission_;  // null: no global queue threshold
  RoomLine room_line_;
};

template <class Operation>
auto Intake::change(Lane& lane, Operation operation) {
  if (admission_ == nullptr) [[likely]]
    return operation();
  table_.pin(lane);  // `operation` may make it idle, and could_run() is read afterwards
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
