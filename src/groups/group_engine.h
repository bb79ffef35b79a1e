// The implementation of GroupExecutor: takes tasks from submit to their last event. It has no
// threads: a Scheduler runs the turns of its lanes.
//
// The path of a task, in group_engine.cc; the ends of tasks that never run are in group_unrun.cc:
//   enqueue -> [reject] -> Intake -> lane -> run_turn (Dispatch) -> run_task -> leave_lane -> complete -> publish
//                                     |                              |
//                                     +-> cancel, expire, drain      +-> suspended ... ended_after_suspension
//                                                                    +-> handed over to its caller ... run_task
//
// Its parts, each with its own state and lock:
//   LimitBook    the limits of each group              Intake       puts tasks into lanes, waits for room
//   Dispatch     pause, rates, the global limit        Waits        waiting tasks, and their permits
//   Endings      notifies for tasks that ended         QuietWatch   waits until no thread is inside
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
  // `shared`: the scheduler also runs work of others, so the engine does not wait for all of its
  // turns.
  GroupEngine(GroupPolicy policy, Scheduler& scheduler, bool shared);
  ~GroupEngine();

  // ---- submitting

  // `hash`: of the task's key. `lane`: pinned, or null to find it by key. Returns the reason if the
  // task was rejected. Throws Exception (kShutdown) when the engine is closed.
  using Rejected = std::optional<RejectionReason>;
  enum class IfFull { kAskPolicy, kTurnAway };
  Rejected enqueue(detail::TaskCore& task, std::size_t hash, Lane* lane,
                   IfFull if_full = IfFull::kAskPolicy);
  // Blocks until there is room. An error if the task was not taken before the deadline.
  Result<void> enqueue_before(detail::TaskCore& task, std::size_t hash, const TimePoint* deadline);
  // REQUIRES: called before enqueue_if_room().
  void tell_submitted(detail::TaskCore& task) const {
    // Until the task begins, started() is the time of its submit.
    if (observer_ != nullptr || policy_.oldest_first) task.set_started(scheduler_.now());
    tell_listener([&](auto& listener) { listener.on_submitted(task.group_key(), task.task_id()); });
  }
  // True if the task has entered its queue. Otherwise the caller calls wait_for_room() or
  // turn_away() next. Throws Exception (kShutdown) if the executor is shut down.
  bool enqueue_if_room(detail::TaskCore& task, std::size_t hash);
  // Rejects a task because the WaitGraph refused the submitter's wait. Throws as enqueue() does.
  void refuse_wait(detail::TaskCore& task);
  void wait_for_room(detail::TaskCore& task, detail::RoomWaiter& waiter);
  // True if the task was in the line for room; it is taken out.
  bool stop_waiting_for_room(detail::TaskCore& task);
  void turn_away(detail::TaskCore& task, RejectionReason reason);

  // Whether the calling thread runs a task of this engine, perhaps below others; only of that key, if given.
  bool runs_a_task_here(std::optional<std::string_view> key = std::nullopt) const;
  bool is_on_a_stack_here() const;
  // Whether the innermost task that the calling thread runs under permits is one of this key's.
  bool is_inside(std::string_view key) const;
  // Runs a task here and now, as a part of the one that the calling thread runs.
  void run_inside(detail::TaskCore& task);
  // Submits a task, and blocks until it has ended if `waits`. `caller_runs`: whether the calling
  // thread runs the task when its turn comes; then it also blocks. An error if the task was
  // rejected, or a shutdown ended it before it began. Throws as enqueue(). REQUIRES: the caller has
  // a reference to the task.
  enum class CallerRuns { kNever, kIfFull, kAlways };
  Result<void> call(detail::TaskCore& task, std::size_t hash, CallerRuns caller_runs, bool waits);

  // For SerialDispatcher: messages name "work for key k". The key is the task's id, and the group a
  // worker; without an id, the key is the group's. REQUIRES: no task was submitted.
  void name_tasks_by_key() { names_by_key_ = true; }

  Lane& pin(std::string_view key) { return intake_.pin(key); }
  void unpin(Lane& lane) { table_.unpin(lane); }

  // ---- while it runs

  Result<void> set_limits(std::string_view key, const GroupLimits& limits);
  Result<void> set_global_limit(int limit);
  void pause_group(std::string_view key) KEYWAY_EXCLUDES(paused_mutex_);
  void resume_group(std::string_view key) KEYWAY_EXCLUDES(paused_mutex_);
  void pause() { dispatch_.pause(); }
  void resume();
  void end_rates();
  void evict_group(std::string_view key);
  bool drain_group(std::string_view key, Duration timeout);
  bool drain(Duration timeout);

  void shutdown_group(std::string_view key);
  void stop_taking();
  void shutdown();
  bool shutdown(Duration timeout);
  // As drain(), but a wait that could never end is an error. REQUIRES: !runs_a_task_here().
  Result<bool> try_drain(Duration timeout);
  // shutdown(), then waits until all tasks have ended and no thread is inside the engine.
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
  bool are_current(const LaneLimits& limits, std::size_t hash) const override {
    return limits_.are_current(limits, hash);
  }
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
  void branch_begins(detail::TaskCore& task) override { waits_.branch_begins(task); }
  void branch_ends(detail::TaskCore& task) noexcept override { waits_.branch_ends(task); }
  std::unique_ptr<detail::TaskWait> begin_sleep(detail::TaskCore& task, int branches) override {
    return waits_.begin_sleep(task, branches);
  }
  std::unique_ptr<detail::TaskWait> begin_rest(detail::TaskCore& task) override {
    return waits_.begin_rest(task);
  }
  Runnable* give_back_permit(detail::TaskCore& waiter) override {
    return waits_.give_back_permit(waiter);
  }
  Need need(detail::TaskCore& task) override;
  void came_in(detail::TaskCore& task) noexcept override;
  void ended_after_suspension(detail::TaskCore& task) noexcept override;
  Scheduler& scheduler() override { return scheduler_; }
  bool has_gate() const override { return dispatch_.has_gate(); }

 private:
  // Submitting.
  // enqueue_if_room() without user code: false also if the executor is shut down.
  bool enter_if_room(detail::TaskCore& task, std::size_t hash);
  bool enter_and_post(detail::TaskCore& task, std::size_t hash, Lane* lane);
  bool enter_with_extras(detail::TaskCore& task, std::size_t hash, Lane* lane);
  void start_expiry(detail::TaskCore& task);
  void after_entering(detail::TaskCore& task);
  void expire_if_late(detail::TaskCore& task);
  Rejected end_full(detail::TaskCore& task, IfFull if_full);
  Rejected reject(detail::TaskCore& task);
  [[noreturn]] void refuse_closed(detail::TaskCore& task);
  std::vector<Ending> close_intake();
  void end_drained(std::vector<Ending> endings, std::optional<std::string_view> key);
  void count_outside(const detail::TaskCore& task, const LaneCounts& counts);

  // Tasks with the same id: see group_conflation.cc.
  enum class Conflated { kEnters, kIsIn, kEnded };
  Conflated conflate(detail::TaskCore& task);
  Conflated follow(detail::TaskCore& task, detail::TaskCore& leader);
  bool take_place_of(detail::TaskCore& other, detail::TaskCore& task);
  // Whether the task ends older tasks with its id when it enters its queue.
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

  // Running, and the end of a task that ran.
  TimePoint read_clock(const Turn& turn) const;
  bool run_task(detail::TaskCore& task, std::uint64_t number, TimePoint now, TaskStatus& status);
  // Whether a turn takes another task. `owed`: it has run fewer tasks than the weight of its group, however long they took.
  bool goes_on(int tasks_left, Duration time_left, bool owed) const {
    return tasks_left > 0 && (owed || time_left > Duration::zero()) && !dispatch_.contended();
  }
  LaneTake take_first(Lane& lane, bool rated, Dispatch::Admitted admitted, Aftermath& aftermath);
  LaneTake leave_lane(Lane& lane, std::uint32_t units, TaskStatus status, bool go_on, Turn* turn);
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

  // The end of a task that did not run: see group_unrun.cc.
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

  // Waiting until all tasks have ended.
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
    } catch (...) {  // a listener cannot make a task fail
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
  const std::unique_ptr<GroupObserver> observer_;  // null: GroupPolicy::observe is false
  const bool watches_ends_;                        // run_turn() calls watch_end() for each task

  detail::Atomic<bool> stops_all_{false};  // after shutdown(): tasks without a lane, too
  Mutex<LockRank::kGlobalLimit> global_limit_mutex_;

  Mutex<LockRank::kPausedGroups> paused_mutex_;
  bool no_more_pauses_ KEYWAY_GUARDED_BY(paused_mutex_) = false;  // after shutdown()
  std::map<std::string, Lane*, std::less<>> paused_groups_        // pinned
      KEYWAY_GUARDED_BY(paused_mutex_);
};

}  // namespace keyway
