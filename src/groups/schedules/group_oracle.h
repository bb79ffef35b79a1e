// The oracle of the groups' schedules: what is known of an executor from outside, and what must always be true of it.
//
// It hears of every operation that changes a limit, of every listener call, and of every wait of a task. It keeps a lower
// bound of the permits that tasks hold, to check limits, and an upper bound, to check that no task waits for nothing.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keyway/group_policy.h"
#include "keyway/task_listener.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/schedules.h"
#include "support/sim_threads.h"

namespace keyway {

inline constexpr std::array<const char*, 4> kScheduleGroups{"a", "b", "c", "d"};
inline std::size_t schedule_group(std::string_view key) {
  return static_cast<std::size_t>(key[0] - 'a');
}

class GroupOracle {
 public:
  class Permits;
  class Wait;

  struct Group {
    int limit = 1;        // the highest that may be in force: exact, unless it is adaptive
    int least_limit = 1;  // the lowest
    // Of which it is the lower one. The next submit after an eviction finds those of the policy.
    int concurrency = 1;
    int in_flight_limit = kUnlimited;
    int policy_concurrency = 1;
    int policy_in_flight_limit = kUnlimited;
    std::optional<int> threshold{};  // that has been in force
    std::optional<RateLimit> rate{};
    std::vector<TimePoint> starts{};
    bool adapts = false;
    // Its limit went down, or it had a task that costs more than 1: from then on a wait for a task of another group may
    // give the group's permit back, too.
    bool may_shrink = false;
    bool paused = false;
    bool was_shut_down = false;
    int running_units = 0;  // lower bound

    int limit_to_find() const { return std::min(concurrency, in_flight_limit); }
  };

  struct Task {
    std::string id;
    std::size_t group = 0;
    int priority = 0;
    int cost = 1;
    int number = 0;  // in the order of submits
    // It may wait for room first: when it enters its queue is not known.
    bool waits_for_room = false;
    bool enters = false;  // it is in its queue, or about to enter it
    // Without a listener.
    bool ended_unheard = false;
    bool entry_unknown = false;  // a call submits it in its course
    bool turned_away = false;    // it found no room, and the rejection handler decides about it
    bool refused_by_exception = false;  // which the handler threw
    // The tasks that wait for it in execute_all(). The call does not submit it if that closes a cycle.
    std::vector<std::string> joined_by{};
    bool closed_a_cycle = false;
    bool by_caller = false;       // its submitter runs it, without permits
    bool may_be_stopped = false;  // it may have been asked to stop
    bool cancelled = false;       // cancel() ended it before it began
    TimePoint expires = TimePoint::max();
    int submitted = 0;
    int started = 0;
    int completed = 0;
    int rejected = 0;
    std::optional<TaskStatus> status{};
    std::unique_ptr<Permits> permits{};  // while it runs

    bool ended() const { return completed + rejected > 0 || ended_unheard; }
    bool waits() const { return submitted == 1 && started == 0 && !ended(); }
    // It waits in its queue; of a task that may wait for room it is not known when it entered that.
    bool stands_in_queue() const {
      return waits() && enters && !turned_away && !waits_for_room && !entry_unknown;
    }
  };

  GroupOracle(const testing::SimScheduler& sim, const SimThreads& threads)
      : sim_(sim), threads_(threads) {}

  // Keeps the first thing that is wrong.
  void expect(bool holds, const std::string& what) {
    if (holds || !wrong_.empty()) return;
    wrong_ = what;
    if (replays_a_seed()) std::cerr << "wrong: " << what << '\n';
  }
  const std::string& wrong() const { return wrong_; }

  Group& group(std::size_t index) { return groups_[index]; }
  Task& task(std::string_view id);
  std::map<std::string, Task>& tasks() { return tasks_; }
  // Ids that begin with a c are used again and again, by conflated tasks: those are only counted.
  static bool is_conflated(std::string_view id) { return id.starts_with('c'); }

  // ---- what changes
  void set_group_limits(std::size_t index, const GroupLimits& change);
  void may_shrink(std::size_t index);
  void evict(std::size_t index);
  void set_global_limit(int limit);
  int global_limit() const { return global_limit_; }
  bool has_global_limit() const { return global_limit_ != kUnlimited; }
  void pause_all(bool paused) { all_paused_ = paused; }
  bool all_paused() const { return all_paused_; }
  void resume_everything();
  // `callers_run`: a submitter may run its task.
  void set_rejection(bool callers_run, std::optional<int> global_threshold) {
    callers_run_ = callers_run;
    global_threshold_ = global_threshold;
  }
  void shut_down_group(std::size_t index);
  void shutdown_begins();
  void shutdown_returned() { shutdown_returned_ = true; }
  bool is_shut_down() const { return shutdown_begun_; }

  // ---- what the listener hears
  void submitted(std::size_t group, std::string_view id);
  // The listener has returned from on_submitted().
  void enters(std::string_view id);
  void started(std::size_t group, std::string_view id);
  // Whether the task that begins on this thread is run by its submitter: without permits, because it found no room.
  bool is_run_by_caller() const;
  void completed(std::string_view id, TaskStatus status);
  void rejected(std::string_view id, RejectionReason reason);

  // ---- an executor without a listener
  // submitted(), enters() and started() are called by the submitters and tasks themselves. Ends are seen by handles.
  void set_unheard() { unheard_ = true; }
  bool unheard() const { return unheard_; }
  // `done`: the handle of the task says so.
  void seen_after_submit(std::string_view id, bool done);
  void body_ended(std::string_view id);
  // What the handle of a task says of its end.
  void check_status(const std::string& id, TaskStatus status);

  std::uint64_t submits() const { return submits_; }
  std::uint64_t ends() const { return ends_; }

  // ---- when nothing is ready and no time passes
  // No task stands in a queue although every limit has room for it. `waiting`: in each group, as the executor says.
  void check_no_task_waits_for_nothing(const std::array<std::uint64_t, 4>& waiting);
  // Nor does a task whose waits are over wait for permits that are free.
  void check_tasks_come_back();
  bool no_task_holds_permits() const { return all_permits_.empty(); }

  // ---- waits
  // Whether a wait of `waiter` for `target` may be refused with kWaitCycle: whether the target may depend on the waiter.
  bool may_be_a_cycle(const std::string& waiter, const std::string& target);
  // Whether a wait may be refused with kNoThread: all threads are inside items, and all but the caller's block.
  bool no_thread_is_free() const {
    return threads_.bounded() && threads_.threads_in_items() == threads_.max_threads();
  }
  // A drain in progress, of a group or of all. It may end if there were no tasks at a moment since it began: a task that
  // was submitted after that moment may run by now.
  class Drain {
   public:
    Drain(GroupOracle& oracle, std::optional<std::size_t> index);
    ~Drain();
    Drain(const Drain&) = delete;
    Drain& operator=(const Drain&) = delete;
    // To be called when it has ended.
    void check();

   private:
    friend class GroupOracle;
    GroupOracle& oracle_;
    const std::optional<std::size_t> index_;
    bool saw_no_tasks_ = false;
    std::list<Drain*>::iterator place_;
  };

 private:
  void set_group_limit(std::size_t index, int limit);
  // Says which task of the group, or of all, has not ended; empty if there is none.
  std::string task_left(std::optional<std::size_t> index);
  void task_ended();
  void check_rate(Group& group, std::size_t index);
  void check_order(const Task& task);
  // Whether the wait of execute_all() for it may be refused.
  bool may_close_a_cycle(const Task& task);
  // What has to go on before `task` can end; more than is necessary.
  void add_dependencies(const std::string& id, std::vector<std::string>& found);
  // An upper bound of what tasks of the group hold.
  int units_held_at_most(std::size_t index) const;
  int global_permits_held_at_most() const;

  const testing::SimScheduler& sim_;
  const SimThreads& threads_;
  std::string wrong_;
  std::array<Group, 4> groups_;
  std::list<Permits*> all_permits_;  // outlives the tasks
  std::list<Drain*> drains_;
  std::list<Wait*> waits_;
  std::map<std::string, Task> tasks_;
  int global_limit_ = kUnlimited;
  int running_in_all_ = 0;  // lower bound
  bool all_paused_ = false;
  bool callers_run_ = false;
  bool unheard_ = false;
  std::optional<int> global_threshold_;
  bool shutdown_begun_ = false;
  bool shutdown_returned_ = false;
  int last_number_ = 0;
  std::uint64_t submits_ = 0;
  std::uint64_t ends_ = 0;
};

// The permits of one running task. Made when the task starts, gone when its callable or coroutine has ended.
class GroupOracle::Permits {
 public:
  Permits(GroupOracle& oracle, std::size_t group, int cost);
  ~Permits();
  Permits(const Permits&) = delete;
  Permits& operator=(const Permits&) = delete;

  // The task, or a branch of it, waits: it gives its global permit back, and that of its group if the awaited task is
  // of `same_group`.
  void begin_wait(bool same_group);
  // `refused`: the wait never began.
  void end_wait(bool same_group, bool refused);
  void begin_rest();
  void end_rest();
  // A branch sleeps while others wait: the task may have its permits.
  void begin_sleep() { ++sleeps_; }
  void end_sleep() { --sleeps_; }

  bool waits() const { return open_waits_ > 0; }
  // Several branches of the task may wait at once.
  void set_branches() { has_branches_ = true; }
  bool has_branches() const { return has_branches_; }

 private:
  friend class GroupOracle;

  // The group's or the global limit changes while the permits are given back.
  void limit_changed();
  void give_lane_back();
  void give_global_back();
  void take_back();
  void start_window();
  void note_most_ever();
  int most_units() const { return std::min(cost_, most_limit_ever_); }

  GroupOracle& oracle_;
  const std::size_t group_;
  const int cost_;
  int units_;
  bool has_lane_ = false;
  bool has_global_ = false;
  bool has_branches_ = false;
  int open_waits_ = 0;
  int rests_ = 0;
  int sleeps_ = 0;
  int waits_in_own_group_ = 0;  // since the first open one, without those that were refused
  int waits_begun_ = 0;         // the same for all
  // Over the time in which permits are given back.
  int most_limit_ = 0;
  int least_limit_ = 0;
  int most_global_ = 0;
  // Since the task started.
  int most_limit_ever_ = 0;
  int most_global_ever_ = 0;
  std::list<Permits*>::iterator place_;
};

// A wait for a task: by another task, or by the listener of a task that is ending.
class GroupOracle::Wait {
 public:
  // For all tasks, as target.
  static constexpr const char* kAll = "*";

  // `waiter`: empty for code outside of tasks. `over`: whether the wait could be over.
  Wait(GroupOracle& oracle, std::string waiter, std::string target, Permits* permits,
       bool same_group, std::function<bool()> over);
  ~Wait();
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  // Another branch of its task ends it, after a time.
  void ends_by_itself() { ends_by_itself_ = true; }
  // It never began, or it is not known whether it did: no limit is checked when it ends.
  void refused() { refused_ = true; }

 private:
  friend class GroupOracle;

  GroupOracle& oracle_;
  const std::string waiter_;
  const std::string target_;
  Permits* const permits_;
  const bool same_group_;
  const std::function<bool()> over_;
  bool refused_ = false;
  bool ends_by_itself_ = false;
  std::list<Wait*>::iterator place_;
};

}  // namespace keyway
