// One random schedule of a group executor: operations in random order, under virtual time, and an oracle that watches.
// A schedule is its seed: see tests/support/schedules.h.
//
//   policy.cc       limits, resolver and rejection handler
//   operations.cc   what happens from outside
//   tasks.cc        what tasks do
//   races.cc        tasks with branches: when_all(), when_any(), with_timeout()
//   acts.cc         what any code may do meanwhile: tasks, listeners, continuations, other threads
//   listener.cc     what the listener hears
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "groups/lossy_scheduler.h"
#include "groups/schedules/group_oracle.h"
#include "keyway/future.h"
#include "keyway/group_executor.h"
#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/foreign_coroutine.h"
#include "support/schedules.h"

namespace keyway {

class GroupSchedule final : public TaskLifecycleListener {
 public:
  // `loses_wakeups`: a planted bug.
  GroupSchedule(std::uint64_t seed, bool loses_wakeups)
      : owned_sim_(std::make_unique<testing::SimScheduler>(seed)),
        scheduler_(sim_, loses_wakeups, one_in(3) ? 1 + below(3) : Scheduler::kUnlimitedThreads),
        seed_(seed),
        loses_(loses_wakeups) {}

  // The first thing that was wrong; empty if nothing was.
  std::string run();

 private:
  using Permits = GroupOracle::Permits;
  using Wait = GroupOracle::Wait;

  // Whose stack code runs on.
  struct Actor {
    std::vector<std::string> ids{};    // of the tasks that run or end on it
    std::set<std::size_t> groups{};    // of those that run
    Permits* permits = nullptr;        // of the innermost one that has some
    std::optional<std::size_t> group;  // of that one
    bool runs() const { return !groups.empty(); }
  };
  Actor here();
  // The waits of all tasks of a stack for one task.
  class Waits;
  // Code outside of tasks that runs beside the operations.
  class Visit;
  // Thrown by the rejection handler.
  class RefusedByHandler;
  // A handle that was given to a coroutine or a future.
  struct Followed {
    std::string id;
    int told = 0;
  };

  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::size_t any_group() { return below(kScheduleGroups.size()); }
  void expect(bool holds, const std::string& what) { oracle_.expect(holds, what); }
  // Printed when one seed is replayed.
  void say(std::string_view what, std::string_view group, std::string_view id = {}) const;

  void make_executor();
  void make_group(GroupPolicy& policy, std::size_t index, bool shares, bool rated, int& promised);
  // Some groups have the limit that the resolver gives; it throws for others.
  void make_resolver(GroupPolicy& policy);
  RejectionPolicy decide_rejection(std::string_view id);

  // ---- operations
  void do_something();
  void pause_or_resume(std::size_t index);
  void resume_everything();
  void change_limit(std::size_t index);
  void change_global_limit();
  void evict(std::size_t index);
  void shut_down_group(std::size_t index);
  void cancel_any();
  void follow_any();
  void make_future();
  void pin_or_unpin(std::size_t index);
  void visit();
  void submit_any(std::size_t index);
  void submit_or_give_up(std::size_t index);
  void submit_conflated(std::size_t index);
  void explain_something(std::size_t index);
  void check_nothing_waits();

  // Plain, or with a cost, a priority, or a time to begin.
  template <class F>
  void submit(std::size_t index, const std::string& id, F work);
  template <class F>
  void submit(std::size_t index, const TaskOptions& options, F work);
  // The options of a task that a task submits and waits for: some have a cost.
  TaskOptions with_a_cost(std::size_t index, const std::string& id);
  // Tells the oracle, if no listener does.
  void about_to_submit(std::size_t index, std::string_view id);
  void keep(TaskHandle<int> handle);
  void submit_failed(const Exception& error);
  std::optional<TaskHandle<int>> take_handle();
  std::string next_id() { return std::to_string(next_id_++); }

  // ---- tasks
  // In the callable or coroutine of a task, as its first variable.
  class Body;

  Task<int> nap(std::size_t index, std::string id, std::uint64_t naps, Duration length);
  Task<int> nested(std::size_t index, std::string id);
  Task<int> nested_patiently(std::size_t index, std::string id);
  Task<int> rests(std::size_t index, std::string id);
  int acts_once(std::size_t index, const std::string& id);
  // Waits of a task that its submitter runs are not known to the executor: a listener that drains would not be refused
  // if such a task waited for it.
  static bool may_wait_in(const GroupOracle::Task& task) { return !task.by_caller; }
  static bool may_wait_in(Body& body);
  // What ends a branch's waits early.
  enum class Stopped {
    kOnRequest,     // only a stop request of its task
    kByAnotherEnd,  // also the end of another branch
    kByItself,      // also a branch that ends after a time
  };
  void begin_branches(Body& body, std::size_t index);
  Task<int> branches(std::size_t index, std::string id);
  Task<int> races(std::size_t index, std::string id);
  Task<int> run_race(Body& body, std::size_t index, std::string id);
  Task<int> branch(Body& body, std::size_t own_index, std::string task, std::size_t number,
                   Stopped stopped);
  Task<void> await_one(Body& body, std::size_t own_index, std::string task, std::string id,
                       Stopped stopped);
  // Whether the error may end a wait of `waiter` for `target`.
  void check_refusal(const std::string& waiter, const std::string& target, const Exception& error,
                     Stopped stopped = Stopped::kOnRequest);
  void check_result(const std::string& id, TaskStatus status);

  // ---- acts
  // On a stack of its own a wait may last; otherwise nothing could end it.
  static bool may_wait() { return Scheduler::current() != nullptr; }
  void act();
  // Whether the error may refuse a wait.
  bool is_refusal(const Exception& error, bool may_be_a_cycle) const;
  void submit_and_join();
  void join_any();
  void join(TaskHandle<int> handle);
  static Task<TaskStatus> status_of(TaskHandle<int>& handle);
  std::stop_token stopped_later();
  void execute_all();
  // Known fault: a drain whose last task has just ended counts as over before its thread has seen that. A wait may then take
  // the last other thread and submit the next task, for which the drain goes on: no thread is left to run it.
  bool may_drain() const { return may_wait(); }
  void drain();
  void drain_group(std::size_t index);
  void shut_down();
  ForeignCoroutine follow(TaskHandle<int> handle, Followed& followed);

  // ---- listener
  void on_submitted(std::string_view group, std::string_view id) override;
  void on_started(std::string_view group, std::string_view id) override;
  void on_completed(std::string_view group, std::string_view id,
                    const TaskOutcome& outcome) override;
  void on_rejected(std::string_view group, std::string_view id, RejectionReason reason) override;
  void listener_acts(std::string_view id);

  // ---- the end
  void end();
  void run_to_the_end();
  void close();
  bool is_stuck();
  void check_end(TaskHandle<int>& handle);
  void check_followed();

  std::unique_ptr<testing::SimScheduler> owned_sim_;
  testing::SimScheduler& sim_ = *owned_sim_;
  LossyScheduler scheduler_;
  const std::uint64_t seed_;
  const bool loses_;
  const bool says_all_ = replays_a_seed();
  GroupOracle oracle_{sim_, scheduler_};
  int next_id_ = 0;
  int acts_left_ = 0;         // of the listener
  int acts_in_progress_ = 0;  // the same
  bool ending_ = false;       // everything was resumed, and is not paused again
  bool closing_ = false;      // no more acts begin
  std::vector<TaskHandle<int>> conflated_;
  std::deque<TaskHandle<int>> handles_;
  std::deque<Followed> followed_;
  std::vector<std::pair<std::string, std::future<GroupResult<int>>>> futures_;
  std::array<std::shared_ptr<GroupHandle>, 4> pins_;
  std::vector<std::unique_ptr<Visit>> visits_;
  std::unique_ptr<GroupExecutor> owned_executor_;
  GroupExecutor* executor_ = nullptr;  // also valid while it is destroyed
};

class GroupSchedule::RefusedByHandler final : public RejectedError {
 public:
  RefusedByHandler() : RejectedError("refused by the handler") {}
};

class GroupSchedule::Visit final : public Runnable {
 public:
  explicit Visit(std::function<void()> call) : call_(std::move(call)) {}

 private:
  void run(Turn&) override { call_(); }
  const std::function<void()> call_;
};

// The time in which a task runs, as the task itself sees it.
class GroupSchedule::Body {
 public:
  Body(GroupSchedule& schedule, std::size_t index, const std::string& id);
  ~Body();
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  // Null for a task that its submitter runs.
  Permits* permits() { return permits_; }

 private:
  GroupSchedule& schedule_;
  const std::string id_;
  std::unique_ptr<Permits> of_conflated_;
  Permits* permits_ = nullptr;
};

inline bool GroupSchedule::may_wait_in(Body& body) { return body.permits() != nullptr; }

template <class F>
void GroupSchedule::submit(std::size_t index, const std::string& id, F work) {
  GroupOracle::Task& task = oracle_.task(id);
  TaskOptions options{.id = id};
  if (!one_in(3)) return submit(index, options, std::move(work));
  if (one_in(2)) options.cost = task.cost = static_cast<int>(1 + below(4));
  if (task.cost > 1) oracle_.may_shrink(index);
  if (one_in(2)) options.priority = task.priority = static_cast<int>(below(4)) - 2;
  if (one_in(3)) {
    options.start_within = std::chrono::microseconds(below(200));
    task.expires = sim_.now() + *options.start_within;
  }
  submit(index, options, std::move(work));
}

template <class F>
void GroupSchedule::submit(std::size_t index, const TaskOptions& options, F work) {
  about_to_submit(index, options.id);
  try {
    // A listener may unpin the group during the submit.
    if (const auto pin = pins_[index]; pin && one_in(2)) {
      keep(pin->submit(options, std::move(work)));
    } else {
      keep(executor_->submit(kScheduleGroups[index], options, std::move(work)));
    }
  } catch (const Exception& error) {
    oracle_.seen_after_submit(options.id, /*done=*/true);
    submit_failed(error);
  }
}

}  // namespace keyway
