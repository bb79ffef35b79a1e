// One random schedule of a group executor: operations in random order, under virtual time, and an oracle that watches.
// A schedule is its seed: see tests/support/schedules.h.
//
//   operations.cc   what happens from outside
//   tasks.cc        what tasks do
//   listener.cc     what the listener hears
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "groups/lossy_scheduler.h"
#include "groups/schedules/group_oracle.h"
#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/schedules.h"

namespace keyway {

class GroupSchedule final : public TaskLifecycleListener {
 public:
  // `loses_wakeups`: a planted bug.
  GroupSchedule(std::uint64_t seed, bool loses_wakeups)
      : sim_(seed), scheduler_(sim_, loses_wakeups), seed_(seed), loses_(loses_wakeups) {}

  // The first thing that was wrong; empty if nothing was.
  std::string run();

 private:
  using Permits = GroupOracle::Permits;

  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::size_t any_group() { return below(kScheduleGroups.size()); }
  void expect(bool holds, const std::string& what) { oracle_.expect(holds, what); }
  // Printed when one seed is replayed.
  void say(std::string_view what, std::string_view group, std::string_view id = {}) const;

  void make_executor();
  void make_group(GroupPolicy& policy, std::size_t index, bool shares, bool rated, int& promised);

  // ---- operations
  void do_something();
  void pause_or_resume(std::size_t index);
  void resume_everything();
  void change_limit(std::size_t index);
  void change_global_limit();
  void evict(std::size_t index);
  void shut_down_group(std::size_t index);
  void cancel(TaskHandle<int>& handle);
  void cancel_any();
  void time_out();
  void submit_any(std::size_t index);
  void submit_or_give_up(std::size_t index);
  void submit_conflated(std::size_t index);
  void explain_something(std::size_t index);
  void check_nothing_waits();

  // Plain, or with a cost, a priority, or a time to begin.
  template <class F>
  void submit(std::size_t index, const std::string& id, F work);
  void keep(TaskHandle<int> handle);
  std::string next_id() { return std::to_string(next_id_++); }

  // ---- tasks
  // In the callable or coroutine of a task, as its first variable.
  class Body;

  Task<int> nap(std::size_t index, std::string id, std::uint64_t naps, Duration length);
  Task<int> nested(std::size_t index, std::string id);
  Task<int> nested_patiently(std::size_t index, std::string id);
  // The errors that may end a wait of the task.
  void check_refusal(const std::string& waiter, const Exception& error);

  // ---- listener
  void on_submitted(std::string_view group, std::string_view id) override;
  void on_started(std::string_view group, std::string_view id) override;
  void on_completed(std::string_view group, std::string_view id,
                    const TaskOutcome& outcome) override;
  void on_rejected(std::string_view group, std::string_view id, RejectionReason reason) override;

  // ---- the end
  void end();
  void run_to_the_end();
  void check_end(TaskHandle<int>& handle);

  testing::SimScheduler sim_;
  LossyScheduler scheduler_;
  const std::uint64_t seed_;
  const bool loses_;
  const bool says_all_ = replays_a_seed();
  GroupOracle oracle_{sim_};
  int next_id_ = 0;
  std::vector<TaskHandle<int>> conflated_;
  std::deque<TaskHandle<int>> handles_;
  std::unique_ptr<GroupExecutor> executor_;
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

template <class F>
void GroupSchedule::submit(std::size_t index, const std::string& id, F work) {
  GroupOracle::Task& task = oracle_.task(id);
  if (!one_in(3)) return keep(executor_->submit(kScheduleGroups[index], id, std::move(work)));
  TaskOptions options{.id = id};
  if (one_in(2)) options.cost = task.cost = static_cast<int>(1 + below(4));
  if (task.cost > 1) oracle_.may_shrink(index);
  if (one_in(2)) options.priority = task.priority = static_cast<int>(below(4)) - 2;
  if (one_in(3)) {
    options.start_within = std::chrono::microseconds(below(200));
    task.expires = sim_.now() + *options.start_within;
  }
  keep(executor_->submit(kScheduleGroups[index], options, std::move(work)));
}

}  // namespace keyway
