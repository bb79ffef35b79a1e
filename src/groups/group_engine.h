// What a GroupExecutor is inside: the life of a task between submit and its last event. It has no threads: a Scheduler
// gives it the turns of its lanes.
//
// A task's way, in group_engine.cc; the ends of tasks that never run are in group_unrun.cc:
//   enqueue -> [reject] -> Intake -> lane -> run_turn (Dispatch) -> run_task -> leave_lane -> complete -> publish
//                                     |                              |
//                                     +-> cancel, expire, drain      +-> suspended ... ended_after_suspension
//                                                                    +-> handed over to its caller ... run_task
//
// Its parts, each with its own state and lock:
//   LimitBook    the limits of each group              Intake    getting into a lane, or waiting for room
//   Dispatch     pause, rates, the global limit        Waits     tasks that wait for tasks, and their permits
//   Endings      telling users of tasks that ended     QuietWatch   the wait until nobody is inside
//
// Thread safety: every method from any thread.
// Lifetime: close() must have returned, and the scheduler's threads must be gone or done with it,
// before it is destroyed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "groups/aftermath.h"
#include "groups/conflation.h"
#include "groups/dispatch.h"
#include "groups/endings.h"
#include "groups/group_observer.h"
#include "groups/intake.h"
#include "groups/limit_book.h"
#include "groups/quiet_watch.h"
#include "groups/running_tasks.h"
#include "groups/waits.h"
#include "keyway/detail/idle_listener.h"
#include "keyway/detail/task_core.h"
#include "keyway/group_executor.h"
#include "keyway/group_policy.h"
#include "lanes/lane_table.h"

namespace keyway {

namespace detail {
// The innermost task on this thread that holds permits; null if there is none.
TaskCore* task_on_this_thread();
}  // namespace detail

class GroupEngine final : public LaneOwner,
                          public detail::TaskOwner,
                          public IdleListener,
                          private Endings::Teller {
 public:
  // `shared`: others use the scheduler too, so its turns say nothing of this engine's.
  GroupEngine(GroupPolicy policy, Scheduler& scheduler, bool shared);
  ~GroupEngine();

  // ---- submitting

  // `hash`: of the task's key. `lane`: pinned, or null to find it by key. Gives the reason if the task was
  // rejected, by the policy or because of `IfFull`. Throws Exception (kShutdown) when closed.
  using Rejected = std::optional<RejectionReason>;
  enum class IfFull { kAskPolicy, kTurnAway };
  Rejected enqueue(detail::TaskCore& task, std::size_t hash, Lane* lane,
                   IfFull if_full = IfFull::kAskPolicy);
  // Blocks while there is no room. An error if the task was turned away in the end.
  Result<void> enqueue_before(detail::TaskCore& task, std::size_t hash, const TimePoint* deadline);
  // Comes before enqueue_if_room().
  void tell_submitted(detail::TaskCore& task) const {
    // Until it begins, this is when it was submitted.
    if (observer_ != nullptr || policy_.oldest_first) task.set_started(scheduler_.now());
    tell_listener([&](auto& listener) { listener.on_submitted(task.group_key(), task.task_id()); });
  }
  // For a caller that will not block. True if the task is in; otherwise it calls wait_for_room() next, or
  // gives up by turn_away().
  bool enqueue_if_room(detail::TaskCore& task, std::size_t hash);
  // Ends a task whose submitter cannot wait for it. Throws as enqueue() does.
  void refuse_wait(detail::TaskCore& task);
  void wait_for_room(detail::TaskCore& task, detail::RoomWaiter& waiter);
  // True if it did wait, and does not any more.
  bool stop_waiting_for_room(detail::TaskCore& task);
  void turn_away(detail::TaskCore& task, RejectionReason reason);

  // Whether the calling thread runs a task of this engine, perhaps below others; only of that key, if given.
  bool runs_a_task_here(std::optional<std::string_view> key = std::nullopt) const;
  // Whether the innermost task that the calling thread runs under permits is one of this key's.
  bool is_inside(std::string_view key) const;
  // Runs a task here and now, as a part of the one that the calling thread runs.
  void run_inside(detail::TaskCore& task);
  // For a caller that waits for the end of the task, if `waits`; and that runs it in its turn on its own thread, if
  // it is to: then it waits in any case. An error if the task was turned away, or never began because of a
  // shutdown. Throws as enqueue(). REQUIRES: the caller has a reference to the task.
  enum class CallerRuns { kNever, kIfFull, kAlways };
  Result<void> call(detail::TaskCore& task, std::size_t hash, CallerRuns caller_runs, bool waits);

  // Messages speak of work and keys, not of tasks and groups. A task's key is that of its group; if it has an id, the
  // key is the id, and the group is a worker. REQUIRES: nothing was submitted yet.
  void name_tasks_by_key() { names_by_key_ = true; }

  Lane& pin(std::string_view key);
  void unpin(Lane& lane) { table_.unpin(lane); }

  // ---- while it runs

  Result<void> set_limits(std::string_view key, const GroupLimits& limits);
  Result<void> set_global_limit(int limit);
  void pause_group(std::string_view key) KEYWAY_EXCLUDES(paused_mutex_);
  void resume_group(std::string_view key) KEYWAY_EXCLUDES(paused_mutex_);
  void pause() { dispatch_.pause(); }
  void resume();
  void evict_group(std::string_view key);
  bool drain_group(std::string_view key, Duration timeout);
  bool drain(Duration timeout);

  void shutdown_group(std::string_view key);
  void stop_taking();
  void shutdown();
  bool shutdown(Duration timeout);
  // shutdown(), then waits until nobody is inside any more.
  void close();

  GroupStats stats();
  GroupStats group_stats(std::string_view key);
  std::vector<std::string> active_group_keys();

  Explanation explain(std::string_view key);
  Explanation explain(detail::TaskCore& task);
  std::vector<HotGroup> hot_groups(std::size_t count);
  std::optional<HotGroup> group_times(std::string_view key);
  std::size_t waiting_for_room() const { return intake_.waiting_for_room(); }

  // ---- LaneOwner, IdleListener, TaskOwner

  void run_turn(Lane& lane, Turn& turn) override;
  LaneRank rank_of(const Waiter& waiter) const override;
  std::unique_ptr<LaneExtension> extend(Lane& lane) override;
  void scheduler_is_idle() noexcept override { table_.forget_idle(); }
  std::string name_of(const detail::TaskCore& task) const override;
  bool cancel(detail::TaskCore& task) override;
  void expire(detail::TaskCore& task) noexcept override;
  Result<Waited> wait(detail::TaskCore& task, const TimePoint* deadline,
                      std::stop_token stop) override;
  Result<std::unique_ptr<detail::TaskWait>> begin_wait(detail::TaskCore& waiter,
                                                       const detail::IntendedWait& wait) override {
    return waits_.begin(waiter, wait);
  }
  void branch_ends(detail::TaskCore& task) noexcept override { waits_.branch_ends(task); }
  std::unique_ptr<detail::TaskWait> begin_rest(detail::TaskCore& task) override {
    return waits_.begin_rest(task);
  }
  Runnable* give_back_permit(detail::TaskCore& waiter) override {
    return waits_.give_back_permit(waiter);
  }
  Need need(detail::TaskCore& task) override;
  const detail::TaskCore* ends_with(const detail::TaskCore& task) override;
  void came_in(detail::TaskCore& task) noexcept override;
  void ended_after_suspension(detail::TaskCore& task) noexcept override;
  Scheduler& scheduler() override { return scheduler_; }

 private:
  // Before a task runs.
  bool enter_and_post(detail::TaskCore& task, std::size_t hash, Lane* lane);
  bool enter_with_extras(detail::TaskCore& task, std::size_t hash, Lane* lane);
  void start_expiry(detail::TaskCore& task);
  void after_entering(detail::TaskCore& task);
  void expire_if_late(detail::TaskCore& task);
  Rejected end_full(detail::TaskCore& task, IfFull if_full);
  Rejected reject(detail::TaskCore& task);
  [[noreturn]] void refuse_closed(detail::TaskCore& task);
  void count_outside(const detail::TaskCore& task, const LaneCounts& counts);

  // Tasks with the same id: see group_conflation.cc.
  enum class Conflated { kEnters, kIsIn, kEnded };
  Conflated conflate(detail::TaskCore& task);
  bool take_place_of(detail::TaskCore& other, detail::TaskCore& task);
  // Whether it ends others with its id when it has entered its queue.
  static bool supersedes(const detail::TaskCore& task) {
    const Conflation conflation = task.extras().conflation;
    return conflation == Conflation::kKeepNewest || conflation == Conflation::kCancelRunning;
  }
  void supersede_older(const detail::TaskCore& task);
  void withdraw_superseded(detail::TaskCore& task);
  bool take_out_superseded(detail::TaskCore& task, Aftermath& aftermath);
  bool wait_in_place_of_older(detail::TaskCore& task, detail::RoomWaiter& waiter);
  static std::exception_ptr superseded_error();
  void end_superseded(detail::TaskCore& task);
  bool cancel_follower(detail::TaskCore& task);
  void tell_all_ends(detail::TaskCore& task, TaskStatus status, TimePoint ended, bool ran,
                     RejectionReason reason) noexcept;
  std::vector<Ending> followers_of(detail::TaskCore& task, TaskStatus status, TimePoint ended,
                                   RejectionReason reason);
  bool is_conflated(const detail::TaskCore& task) const {
    return task.has_extras() && task.extras().conflation != Conflation::kNone;
  }

  // While it runs, and its end.
  TimePoint read_clock(const Turn& turn) const;
  bool run_task(detail::TaskCore& task, std::uint64_t number, TimePoint now, TaskStatus& status);
  bool goes_on(int tasks_left, Duration time_left) const {
    return tasks_left > 0 && time_left > Duration::zero() && !dispatch_.contended();
  }
  LaneTake leave_lane(detail::TaskCore& task, TaskStatus status, bool go_on, Turn* turn);
  bool ends_silently(const detail::TaskCore& task, TaskStatus status) const;
  void give_up_lane(Lane& lane, std::size_t hash, const LaneTake& left, Aftermath& aftermath);
  // REQUIRES: the permits are back, and the next task can start.
  void complete(detail::TaskCore& task, TaskStatus status, TimePoint ended, bool ran = true,
                RejectionReason reason = {}) noexcept {
    if (is_conflated(task)) [[unlikely]]
      return tell_all_ends(task, status, ended, ran, reason);
    if (policy_.listener != nullptr) [[unlikely]]
      return tell_end(task, status, ended, ran, reason);
    task.publish(status, ended);
  }
  void tell_end(detail::TaskCore& task, TaskStatus status, TimePoint ended, bool ran,
                RejectionReason reason) noexcept;
  void end_outside_turn(detail::TaskCore& task, TaskStatus status) noexcept;
  void run_handed_over(detail::TaskCore& task, std::uint64_t number);
  void run_by_caller(detail::TaskCore& task);
  void end_of_callers(detail::TaskCore& task, TaskStatus status);
  bool is_findable(const detail::TaskCore& task) const {
    return task.operations().can_stop || observer_ != nullptr;
  }
  void watch_end(detail::TaskCore& task, TaskStatus status, TimePoint ended);
  void adapt(Lane& lane, Duration took, TimePoint now);

  // Its end without having run: see group_unrun.cc.
  bool withdraw(detail::TaskCore& task, bool expired, Aftermath& aftermath);
  void stop_expiry(detail::TaskCore& task) noexcept {
    if (task.has_extras() && task.extras().expires) scheduler_.cancel_timer(task.extras().expiry);
  }
  Ending unrun(detail::TaskCore& task, TaskStatus status, std::exception_ptr error,
               RejectionReason reason, Aftermath& aftermath) noexcept;
  void end_unrun(detail::TaskCore& task, TaskStatus status, std::exception_ptr error,
                 RejectionReason reason = {}) noexcept;
  void reject_chain(Waiter* first, RejectionReason reason, std::vector<Ending>& endings,
                    Aftermath& aftermath);
  void tell(Ending& ending) noexcept override;
  void begin_use() override { quiet_.begin(); }
  void tell_posted(Ending& ending) noexcept override;

  // Waiting for the end of all.
  class AllTasks;
  Result<bool> wait_until_quiet(const TimePoint* deadline);
  std::optional<TimePoint> deadline_after(Duration timeout) const;
  void resume_everything(Aftermath& aftermath) KEYWAY_EXCLUDES(paused_mutex_);

  void explain_lane(Lane& lane, const Waiter* waiter, Explanation& why);
  void find_holders(Explanation& why);

  template <class Call>
  void tell_listener(Call call) const noexcept {
    if (policy_.listener == nullptr) return;
    try {
      call(*policy_.listener);
    } catch (...) {  // a listener only watches
    }
  }

  // Constant after construction.
  const GroupPolicy policy_;
  Scheduler& scheduler_;
  const bool shared_;
  const bool has_states_;  // every lane has a GroupState
  bool names_by_key_ = false;

  // Have their own synchronization.
  LimitBook limits_;
  LaneTable table_;
  Dispatch dispatch_;
  Intake intake_;
  Waits waits_;
  Endings endings_;
  QuietWatch quiet_;
  RunningTasks findable_;
  ConflationTable conflation_;
  const std::unique_ptr<GroupObserver> observer_;  // null: nobody asked
  const bool watches_ends_;                        // each task that ends is looked at

  Mutex<LockRank::kPausedGroups> paused_mutex_;
  bool no_more_pauses_ KEYWAY_GUARDED_BY(paused_mutex_) = false;  // what ends is not held back
  std::map<std::string, Lane*, std::less<>> paused_groups_        // pinned
      KEYWAY_GUARDED_BY(paused_mutex_);
};

}  // namespace keyway
