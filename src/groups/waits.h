// The waits of tasks, and the permits that they have given back meanwhile.
//
// A task that waits for another keeps its lane's permit, so that no other task comes between the halves of a serial
// task; but it gives back what the other one needs: the global permit always, and the lane's own if the other is of the
// same lane. It goes on when it has both again, in front of all tasks that wait to begin.
//
// A coroutine may wait in several branches at once. A branch goes on when its own wait is over and the task has its
// permits; when that branch ends or waits again, the task gives back what the waits of the others need.
//
// A wait's life: begin -> checked by the WaitGraph -> permits given back -> ... -> end -> [lane] -> [gate] -> woken
//
// The permits of a task with waits (OfTask), under mutex_:
//
//   state      flags                        the task
//   kHolds     neither permit is back       runs a branch, or its waits need none of its permits
//   kAway      lane_back or gate_back       waits, without the permits that it gave back
//   kAtGate    returning, not lane_back     stands at the gate for a global permit; it holds its lane's
//   kInLane    returning, lane_back         stands in its lane's queue, as a Returning
//
//   state      event                        next state
//   kHolds     a wait or a rest begins      kAway, or kHolds if the wait needs no permit
//   kHolds     a branch ends                the same, for the waits of the other branches
//   kHolds     a wait ends                  kHolds; its branch is woken
//   kAway      a wait ends                  kInLane if lane_back, otherwise kAtGate
//   kAtGate,
//   kInLane    another wait ends            unchanged; its branch is woken with the others
//   kAtGate    the gate gives a permit      kHolds, and the branches are woken; if lane_back was set meanwhile, kInLane,
//                                           and the global permit goes on to the next lane
//   kInLane    a worker takes it: came_back kHolds; the branches are woken
//   any        give_back_permit             lane_back is set: kHolds becomes kAway
//   kHolds     no wait is left              forgotten
//
// Thread safety: every method from any thread.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "groups/dispatch.h"
#include "groups/intake.h"
#include "keyway/detail/task_core.h"

namespace keyway {

class Waits {
 public:
  Waits(Scheduler& scheduler, LaneTable& table, Intake& intake, Dispatch& dispatch)
      : scheduler_(scheduler), table_(table), intake_(intake), dispatch_(dispatch) {}

  // See TaskOwner.
  Result<std::unique_ptr<detail::TaskWait>> begin(detail::TaskCore& waiter,
                                                  const detail::IntendedWait& wait)
      KEYWAY_EXCLUDES(mutex_);
  void branch_ends(detail::TaskCore& waiter) noexcept KEYWAY_EXCLUDES(mutex_);
  // The calling task will do nothing for a while: it gives its global permit back, if there is a global limit.
  std::unique_ptr<detail::TaskWait> begin_rest(detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_);
  // A waiting task gives its lane's permit back for the rest of the wait. Returns the lane to post, or null.
  Runnable* give_back_permit(detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);

  // Whether the task waits, or wants its permits back.
  bool is_waiting(const detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_);
  // The permits of its lane that the task gave back, or is about to, and wants again; 0: none.
  std::uint32_t wants_back(const detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_);
  // For the worker that took `returning` from its lane: the task it stands for has its permits again.
  void came_back(detail::TaskCore& returning, std::uint32_t units) KEYWAY_EXCLUDES(mutex_);

 private:
  class GroupWait;
  class PermitlessWait;
  class Returning;

  // The waits of one task, from its first one until the last is over and it has its permits.
  struct OfTask final : GlobalGate::Returner {
    OfTask(Waits& all, detail::TaskCore& task) : waits(all), waiter(task) {}
    Lane* go_on(Aftermath& aftermath) override { return waits.has_global_permit(*this, aftermath); }
    Lane& gate_lane() override { return *waiter.lane(); }

    Waits& waits;
    detail::TaskCore& waiter;
    bool has_permits() const { return !lane_back && !gate_back; }
    // Whether nothing of it is needed any more.
    bool is_over() const { return open == 0 && in_check == 0 && over.empty() && has_permits(); }

    int in_check = 0;  // waits that the graph checks just now
    int in_check_in_lane = 0;
    int open = 0;            // waits that were accepted, and are not over
    int open_in_lane = 0;    // of these, those for tasks of the own lane
    bool lane_back = false;  // given back
    bool gate_back = false;
    bool returning = false;  // it stands in its lane, or at the gate
    bool uncounted = false;
    std::vector<detail::Wakeup*> over;  // of branches that go on when the permits are there
  };
  enum class Next { kNothing, kEnterLane, kEnterGate };

  OfTask& of(detail::TaskCore& waiter) KEYWAY_REQUIRES(mutex_);
  // From begin_check() to end_check() the task is kept in tasks_, and others count on the permits that the wait will
  // give back. accept() ends the check and opens the wait.
  OfTask& begin_check(detail::TaskCore& waiter, bool in_own_lane) KEYWAY_EXCLUDES(mutex_);
  void end_check(OfTask& task, bool in_own_lane) KEYWAY_REQUIRES(mutex_);
  void accept(OfTask& task, bool in_own_lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  // Gives back what the open waits need; let_others_in() comes next. True: it also leaves the gate.
  bool give_back(OfTask& task, Aftermath& aftermath) KEYWAY_REQUIRES(mutex_);
  void let_others_in(detail::TaskCore& waiter, bool leaves_gate, Aftermath& aftermath)
      KEYWAY_EXCLUDES(mutex_);
  void count(OfTask& task) KEYWAY_REQUIRES(mutex_);
  Next begin_return(OfTask& task) KEYWAY_REQUIRES(mutex_);
  void return_by(OfTask& task, Next next, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  void go_on(OfTask& task, Aftermath& aftermath) KEYWAY_REQUIRES(mutex_);
  void forget_if_over(OfTask& task) KEYWAY_REQUIRES(mutex_);
  void end(OfTask& task, bool in_own_lane, detail::Wakeup& wakeup) KEYWAY_EXCLUDES(mutex_);
  Lane* has_global_permit(OfTask& task, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);

  Scheduler& scheduler_;
  LaneTable& table_;
  Intake& intake_;
  Dispatch& dispatch_;

  Mutex<LockRank::kTaskWaits> mutex_;
  std::unordered_map<const detail::TaskCore*, std::unique_ptr<OfTask>> tasks_
      KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
