// The waits of tasks, and the permits that waiting tasks have given back.
//
// A task that waits for another one gives its global permit back. It keeps its lane's permit, so
// that no other task runs between the halves of a serial task, unless the other task is of the same
// lane: then it gives that permit back, too. It goes on when it has both permits again, ahead of
// all tasks that have not begun.
//
// A coroutine may have several branches. The task gives permits back when no branch runs: each of
// them waits, rests or sleeps. A branch goes on when its own wait has ended and the task has its
// permits.
//
// The steps of a wait: begin -> WaitGraph check -> permits given back -> ... -> end -> [lane] ->
// [gate] -> woken
//
// The permits of a task with waits (OfTask), under mutex_:
//
//   state     flags                        the task
//   holds     neither permit is back       runs a branch, or its waits need none of its permits
//   away      lane_back or gate_back       no branch runs; without the permits that it gave back
//   at gate   returning, not lane_back     stands at the gate for a global permit; it holds its lane's
//   in lane   returning, lane_back         stands in its lane's queue, as a Returning
//
//   state     event                        next state
//   holds     a wait, rest or sleep begins away if no branch runs now and a wait needs a permit
//   holds     a branch ends                the same
//   holds     a wait, rest or sleep ends   holds; its branch is woken
//   away      one of them ends             in lane if lane_back, otherwise at gate
//   at gate   another wait ends            at gate; its branch is woken with the others
//   in lane   another wait ends            in lane; its branch is woken with the others
//   at gate   the gate gives a permit      holds, and the branches are woken
//   in lane   came_back()                  holds; the branches are woken
//   any       give_back_permit()           lane_back is set if no branch runs, otherwise when none
//                                          does
//   holds     no wait and no branch        the OfTask is freed
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
  void branch_begins(detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);
  void branch_ends(detail::TaskCore& waiter) noexcept KEYWAY_EXCLUDES(mutex_);
  std::unique_ptr<detail::TaskWait> begin_rest(detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_);
  std::unique_ptr<detail::TaskWait> begin_sleep(detail::TaskCore& task, int branches)
      KEYWAY_EXCLUDES(mutex_);
  // Takes the lane's permit from a task of which a branch waits, as soon as no branch runs, until it
  // goes on. Returns the lane to post, or null.
  Runnable* give_back_permit(detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);

  // The number of lane permits that the task has given back, or is about to give back; 0: none.
  std::uint32_t wants_back(const detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_);
  // For the worker that took `returning` from its lane: gives its permits to the task that it
  // stands for.
  void came_back(detail::TaskCore& returning, std::uint32_t units) KEYWAY_EXCLUDES(mutex_);

 private:
  class GroupWait;
  class Returning;

  // The waits of one task, from its first wait until all waits have ended and the task has its
  // permits.
  struct OfTask final : GlobalGate::Returner {
    OfTask(Waits& all, detail::TaskCore& task) : waits(all), waiter(task) {}
    void go_on(Aftermath& aftermath) override { waits.has_global_permit(*this, aftermath); }
    Lane& gate_lane() override { return *waiter.lane(); }

    Waits& waits;
    detail::TaskCore& waiter;
    bool has_permits() const { return !lane_back && !gate_back; }
    // Whether a branch runs, or is about to.
    bool runs() const { return idle_branches < branches || !over.empty(); }
    // Whether the graph knows, or may know, a wait that has not ended.
    bool has_waits() const { return open > 0 || in_check > 0; }
    bool waits_or_returns() const { return has_waits() || !over.empty() || !has_permits(); }
    // Whether the object can be freed.
    bool is_over() const { return !waits_or_returns() && branches == 1 && idle_branches == 0; }

    int branches = 1;       // coroutines of the task that do not wait for branches of their own
    int idle_branches = 0;  // of these, those that wait, rest or sleep
    int in_check = 0;       // waits that the WaitGraph is checking, or hears of
    int in_check_in_lane = 0;
    int open = 0;                       // accepted waits and rests that have not ended
    int open_in_lane = 0;               // of these, waits for tasks of the same lane
    bool lane_wanted = false;           // by give_back_permit(), until the task goes on
    bool lane_back = false;             // the lane's permits are given back
    bool gate_back = false;             // the global permit is given back
    bool returning = false;             // the task stands in its lane's queue, or at the gate
    bool uncounted = false;             // see count()
    std::vector<detail::Wakeup*> over;  // of branches whose wait has ended; go_on() wakes them
  };
  enum class Next { kNothing, kEnterLane, kEnterGate };
  // What a branch does not run for. `in_own_lane`: a wait for a task of the same lane.
  struct Pause {
    enum class Kind { kWait, kRest, kSleep } kind = Kind::kWait;
    bool in_own_lane = false;
    // The number of branches that do not run. 0: another wait of the branch, or its InlineRun, counts
    // it.
    int branches = 1;
    // Of a coroutine in an InlineRun. At its end only the coroutine is woken: the thread of the run may
    // be blocked by another branch, and gets the permits back when it goes on.
    bool confined = false;
  };

  OfTask& of(detail::TaskCore& waiter) KEYWAY_REQUIRES(mutex_);
  // From begin_check() to end_check() the task stays in tasks_, and other checks count on the
  // permits that the wait will give back. accept() ends the check and opens the wait.
  OfTask& begin_check(detail::TaskCore& waiter, bool in_own_lane, bool& lane_lost_room)
      KEYWAY_EXCLUDES(mutex_);
  void end_check(OfTask& task, bool in_own_lane) KEYWAY_REQUIRES(mutex_);
  void accept(OfTask& task, const Pause& pause, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  std::unique_ptr<detail::TaskWait> begin_unlinked(detail::TaskCore& waiter, const Pause& pause)
      KEYWAY_EXCLUDES(mutex_);
  // Gives back the permits that the open waits need, if no branch runs. The caller calls
  // let_others_in() next. True: it leaves the gate.
  bool give_back(OfTask& task, Aftermath& aftermath) KEYWAY_REQUIRES(mutex_);
  void let_others_in(detail::TaskCore& waiter, bool leaves_gate, Aftermath& aftermath)
      KEYWAY_EXCLUDES(mutex_);
  void count(OfTask& task) KEYWAY_REQUIRES(mutex_);
  Next begin_return(OfTask& task) KEYWAY_REQUIRES(mutex_);
  void return_by(OfTask& task, Next next, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  void go_on(OfTask& task, Aftermath& aftermath) KEYWAY_REQUIRES(mutex_);
  void begin_going_on(OfTask& task) KEYWAY_REQUIRES(mutex_);
  bool end_going_on(OfTask& task, Aftermath& aftermath) KEYWAY_REQUIRES(mutex_);
  void has_returned(OfTask& task, std::uint32_t units, Aftermath& aftermath)
      KEYWAY_EXCLUDES(mutex_);
  void forget_if_over(OfTask& task) KEYWAY_REQUIRES(mutex_);
  void end(OfTask& task, const Pause& pause, bool holds_again, detail::Wakeup& wakeup)
      KEYWAY_EXCLUDES(mutex_);
  void has_global_permit(OfTask& task, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);

  Scheduler& scheduler_;
  LaneTable& table_;
  Intake& intake_;
  Dispatch& dispatch_;

  Mutex<LockRank::kTaskWaits> mutex_;
  std::unordered_map<const detail::TaskCore*, std::unique_ptr<OfTask>> tasks_
      KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
