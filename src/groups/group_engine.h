// What a GroupExecutor is inside: lanes, the layers above them, and the life of a task between
// submit and its last event. It has no threads: a Scheduler gives it the turns of its lanes.
//
// A task's way:
//   enqueue -> [reject] -> lane -> run_turn -> run_task -> complete
//                            |                    |
//                            +-> cancel, drain    +-> suspended ... ended_after_suspension
//                                                 +-> handed over to its caller ... run_task
//
// Thread safety: every method from any thread.
// Lifetime: close() must have returned, and the scheduler's threads must be gone or done with it,
// before it is destroyed.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "groups/admission.h"
#include "groups/conflation.h"
#include "groups/global_gate.h"
#include "groups/group_observer.h"
#include "groups/room_line.h"
#include "groups/running_tasks.h"
#include "groups/task_waits.h"
#include "keyway/detail/task_core.h"
#include "keyway/group_executor.h"
#include "keyway/group_policy.h"
#include "lanes/lane_table.h"

namespace keyway {

namespace detail {
// The innermost task on this thread that holds permits; null if there is none.
TaskCore* task_on_this_thread();
}  // namespace detail

// How a task came to its end, for the listener.
struct EndedBy {
  bool ran = true;
  RejectionReason reason{};  // of a task that ends kRejected
};

class GroupEngine final : public LaneOwner, public detail::TaskOwner, public IdleListener {
 public:
  // `shared`: others use the scheduler too, so its turns say nothing of this engine's.
  GroupEngine(GroupPolicy policy, Scheduler& scheduler, bool shared);
  ~GroupEngine();

  // `hash`: of the task's key. `lane`: pinned, or null to find it by key. False if the task was
  // turned away, by the policy or because of `IfFull`. Throws Exception (kShutdown) when closed.
  enum class IfFull { kAskPolicy, kTurnAway };
  bool enqueue(detail::TaskCore& task, std::size_t hash, Lane* lane,
               IfFull if_full = IfFull::kAskPolicy);
  // Blocks while there is no room. An error if the task was turned away in the end.
  Result<void> enqueue_before(detail::TaskCore& task, std::size_t hash, const TimePoint* deadline);
  // For one who will not block. True if the task is in; otherwise it calls wait_for_room() next, or
  // gives up.
  bool enqueue_if_room(detail::TaskCore& task, std::size_t hash);
  void wait_for_room(detail::TaskCore& task, detail::RoomWaiter& waiter);
  void turn_away(detail::TaskCore& task, RejectionReason reason);

  // Whether the calling thread runs a task of this engine, perhaps below others; only of that key, if given.
  bool runs_a_task_here(std::optional<std::string_view> key = std::nullopt) const;
  // Whether the innermost task that the calling thread runs under permits is one of this key's.
  bool is_inside(std::string_view key) const;
  // Runs a task here and now, as a part of the one that the calling thread runs.
  void run_inside(detail::TaskCore& task);
  // For a caller who waits for the end of the task, if `waits`; and who runs it in its turn on its own thread, if
  // it is to: then it waits in any case. An error if the task was turned away, or never began because of a
  // shutdown. Throws as enqueue(). REQUIRES: the caller has a reference to the task.
  enum class CallerRuns { kNever, kIfFull, kAlways };
  Result<void> call(detail::TaskCore& task, std::size_t hash, CallerRuns caller_runs, bool waits);

  Lane& pin(std::string_view key);
  void unpin(Lane& lane) { table_.unpin(lane); }

  // While it runs.
  Result<void> set_limits(std::string_view key, const GroupLimits& limits)
      KEYWAY_EXCLUDES(control_mutex_);
  Result<void> set_global_limit(int limit);
  void pause_group(std::string_view key) KEYWAY_EXCLUDES(control_mutex_);
  void resume_group(std::string_view key) KEYWAY_EXCLUDES(control_mutex_);
  void pause() KEYWAY_EXCLUDES(control_mutex_);
  void resume() KEYWAY_EXCLUDES(control_mutex_);
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

  // Told by a TokenTimer.
  void tokens_came(Lane& lane) KEYWAY_EXCLUDES(parked_mutex_);
  std::size_t waiting_for_room() const { return room_line_.size(); }

  // LaneOwner, IdleListener, TaskOwner.
  void run_turn(Lane& lane, Turn& turn) override;
  LaneRank rank_of(const Waiter& waiter) const override;
  std::unique_ptr<LaneExtension> extend(Lane& lane) override;
  void scheduler_is_idle() noexcept override { table_.forget_idle(); }
  bool cancel(detail::TaskCore& task) override;
  void expire(detail::TaskCore& task) noexcept override;
  Result<Waited> wait(detail::TaskCore& task, const TimePoint* deadline,
                      std::stop_token stop) override;
  Result<std::unique_ptr<detail::TaskWait>> begin_wait(detail::TaskCore& waiter,
                                                       detail::TaskCore& target,
                                                       bool bounded) override;
  std::unique_ptr<detail::TaskWait> begin_rest(detail::TaskCore& task) override;
  Runnable* give_back_permit(detail::TaskCore& waiter) override;
  Need need(detail::TaskCore& task) override;
  const detail::TaskCore* ends_with(const detail::TaskCore& task) override;
  void ended_after_suspension(detail::TaskCore& task) noexcept override;
  Scheduler& scheduler() override { return scheduler_; }

 private:
  friend class TaskWaits;

  // Before a task runs.
  LaneLimits resolve(std::string_view key) KEYWAY_EXCLUDES(control_mutex_);
  void apply_changed_limits(Lane& lane, std::string_view key);
  bool waits_for_tokens(Lane& lane, GroupState& state) KEYWAY_EXCLUDES(parked_mutex_);
  void stop_waiting_for_tokens(Lane& lane) KEYWAY_EXCLUDES(parked_mutex_);
  void stop_waiting_for_tokens() KEYWAY_EXCLUDES(parked_mutex_);
  std::optional<Duration> tokens_come_in(Lane& lane) KEYWAY_EXCLUDES(parked_mutex_);
  void adapt(Lane& lane, Duration took, TimePoint now);
  bool hold_turn(Lane& lane) KEYWAY_EXCLUDES(control_mutex_);
  void give_held_turn(Lane& lane) KEYWAY_EXCLUDES(control_mutex_);
  void resume_everything() KEYWAY_EXCLUDES(control_mutex_);
  LaneTable::Entry enter(detail::TaskCore& task, std::size_t hash, Lane* lane, bool ranked);
  LaneTable::Entry enter_ranked(detail::TaskCore& task);
  bool is_ranked(const detail::TaskCore& task) const {
    return task.has_extras() && !rank_of(task.waiter()).plain();
  }
  bool enter_and_post(detail::TaskCore& task, std::size_t hash, Lane* lane);
  bool enter_with_extras(detail::TaskCore& task, std::size_t hash, Lane* lane);
  void start_expiry(detail::TaskCore& task);
  void after_entering(detail::TaskCore& task);
  void expire_if_late(detail::TaskCore& task);
  void tell_submitted(detail::TaskCore& task) const;
  bool is_findable(const detail::TaskCore& task) const {
    return task.operations().can_stop || observer_ != nullptr;
  }
  void watch_end(detail::TaskCore& task, TaskStatus status, TimePoint ended);
  void explain_lane(Lane& lane, const Waiter* waiter, Explanation& why);
  void find_holders(Explanation& why);
  bool end_full(detail::TaskCore& task, IfFull if_full);
  // Tasks with the same id: see group_conflation.cc.
  enum class Conflated { kEnters, kIsIn, kEnded };
  Conflated conflate(detail::TaskCore& task);
  bool take_place_of(detail::TaskCore& other, detail::TaskCore& task);
  void withdraw_superseded(detail::TaskCore& task);
  void end_superseded(detail::TaskCore& task);
  bool cancel_follower(detail::TaskCore& task);
  void tell_end(detail::TaskCore& task, TaskStatus status, TimePoint ended, EndedBy by) noexcept;
  void end_followers(detail::TaskCore& task, TaskStatus status, TimePoint ended,
                     RejectionReason reason) noexcept;
  bool is_conflated(const detail::TaskCore& task) const {
    return task.has_extras() && task.extras().conflation != Conflation::kNone;
  }
  void count_outside(const detail::TaskCore& task, const LaneCounts& counts);
  // Whoever has made room in `lane` says so. REQUIRES: no lock is held.
  void made_room(Lane& lane) {
    if (room_line_.empty()) [[likely]]
      return;
    admission_ != nullptr ? let_all_in() : let_in(lane);
  }
  void left_room_line(const RoomLine::Entry& entry);
  void let_all_in();
  void let_in(Lane& lane);
  void let_nobody_in_any_more();
  LaneTable::Entry enter_counted(detail::TaskCore& task, Lane& lane);
  bool reject(detail::TaskCore& task);
  TimePoint read_clock(const Turn& turn) const;
  void run_by_caller(detail::TaskCore& task);
  [[noreturn]] void refuse_closed(detail::TaskCore& task);
  void give_up_place(detail::TaskCore& task);

  // While it runs, and its end.
  bool run_task(detail::TaskCore& task, std::uint64_t number, TimePoint now, TaskStatus& status);
  bool goes_on(int tasks_left, Duration time_left) const;
  LaneTake leave_lane(detail::TaskCore& task, TaskStatus status, bool go_on, Turn* turn);
  bool ends_silently(const detail::TaskCore& task, TaskStatus status) const;
  void give_up_lane(Lane& lane, std::size_t hash, const LaneTake& left);
  void leave_gate(Lane& lane);
  // With shares, a lane stays as long as it has a global permit.
  void pin_for_gate(Lane& lane) {
    if (shares_) table_.pin(lane);
  }
  void complete(detail::TaskCore& task, TaskStatus status, TimePoint ended,
                EndedBy by = {}) noexcept;
  void end_outside_turn(detail::TaskCore& task, TaskStatus status) noexcept;
  void run_handed_over(detail::TaskCore& task, std::uint64_t number);
  void end_of_callers(detail::TaskCore& task, TaskStatus status);

  // Its end without having run.
  bool withdraw(detail::TaskCore& task, std::string_view key, std::size_t hash, bool expired);
  void stop_expiry(detail::TaskCore& task) noexcept {
    if (task.has_extras() && task.extras().expires) scheduler_.cancel_timer(task.extras().expiry);
  }
  void end_unrun(detail::TaskCore& task, TaskStatus status, std::exception_ptr error,
                 RejectionReason reason = {}) noexcept;
  void reject_chain(Waiter* first, RejectionReason reason);

  // For one more wait of this task.
  TaskWaits& waits_of(detail::TaskCore& waiter) KEYWAY_REQUIRES(waits_mutex_);
  void come_back(detail::TaskCore& returning);
  void less_room();

  // A lane operation that may change how many could run.
  template <class Operation>
  auto change(Lane& lane, Operation operation);

  // Waiting for the end of all. A Use is somebody in the engine whom neither a lane nor a turn of
  // its own scheduler shows.
  class Use {
   public:
    explicit Use(GroupEngine& engine, bool counts = true) : engine_(counts ? &engine : nullptr) {
      if (engine_ != nullptr) engine_->begin_use();
    }
    ~Use() {
      if (engine_ != nullptr) engine_->end_use();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    GroupEngine* const engine_;
  };
  void begin_use() KEYWAY_EXCLUDES(quiet_mutex_);
  void end_use() KEYWAY_EXCLUDES(quiet_mutex_);
  template <class Condition>
  bool wait_until(Condition condition, std::optional<TimePoint> deadline)
      KEYWAY_EXCLUDES(quiet_mutex_);
  bool wait_until_quiet(std::optional<TimePoint> deadline) KEYWAY_EXCLUDES(quiet_mutex_);
  bool quiet() KEYWAY_EXCLUDES(quiet_mutex_);
  bool group_quiet(std::string_view key) KEYWAY_EXCLUDES(waits_mutex_);
  std::optional<TimePoint> deadline_after(Duration timeout) const;
  void somebody_left() KEYWAY_EXCLUDES(quiet_mutex_);
  std::uint64_t quiet_hints() KEYWAY_EXCLUDES(quiet_mutex_) {
    MutexLock lock(quiet_mutex_);
    return quiet_hints_;
  }

  template <class Call>
  void tell_listener(Call call) const noexcept;

  // Constant after construction.
  const GroupPolicy policy_;
  Scheduler& scheduler_;
  const bool shared_;
  std::optional<LaneLimits> uniform_limits_;  // of a policy that has the same for every key
  const bool has_states_;                     // every lane has a GroupState
  const bool shares_;                         // and the gate is to look at them

  // Have their own synchronization.
  LaneTable table_;
  std::unique_ptr<GlobalGate> gate_;      // null: no global limit
  std::unique_ptr<Admission> admission_;  // null: no global queue threshold
  RunningTasks findable_;
  const std::unique_ptr<GroupObserver> observer_;  // null: nobody asked
  const bool watches_ends_;                        // somebody looks at each task that ends
  RoomLine room_line_;
  ConflationTable conflation_;

  // What was changed while it runs.
  Mutex control_mutex_;
  std::map<std::string, GroupLimits, std::less<>> overrides_ KEYWAY_GUARDED_BY(control_mutex_);
  std::map<std::string, Lane*, std::less<>> paused_groups_  // pinned
      KEYWAY_GUARDED_BY(control_mutex_);
  std::vector<Lane*> held_turns_ KEYWAY_GUARDED_BY(control_mutex_);
  std::atomic<bool> paused_{false};               // written under control_mutex_
  std::atomic<std::uint64_t> limits_changed_{0};  // how often; written under control_mutex_

  // Lanes that have their turn and wait for tokens.
  Mutex parked_mutex_;
  std::set<Lane*> parked_ KEYWAY_GUARDED_BY(parked_mutex_);
  std::atomic<bool> no_more_rates_{false};  // it is shut down: nobody need wait

  // Tasks that wait for tasks.
  Mutex waits_mutex_;
  std::uint64_t waits_begun_ KEYWAY_GUARDED_BY(waits_mutex_) = 0;
  std::unordered_map<const detail::TaskCore*, std::unique_ptr<TaskWaits>> waits_
      KEYWAY_GUARDED_BY(waits_mutex_);

  std::atomic<bool> waiting_for_quiet_{false};
  Mutex quiet_mutex_;
  std::uint64_t quiet_hints_ KEYWAY_GUARDED_BY(quiet_mutex_) = 0;
  std::uint64_t uses_ KEYWAY_GUARDED_BY(quiet_mutex_) = 0;
  std::uint64_t uses_begun_ KEYWAY_GUARDED_BY(quiet_mutex_) = 0;
  CondVar quiet_changed_;
};

template <class Call>
void GroupEngine::tell_listener(Call call) const noexcept {
  if (policy_.listener == nullptr) return;
  try {
    call(*policy_.listener);
  } catch (...) {  // a listener only watches
  }
}

template <class Operation>
auto GroupEngine::change(Lane& lane, Operation operation) {
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
