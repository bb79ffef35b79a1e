// Random operations on a group executor, in random order, under virtual time: whatever happens, what
// must always be true is true. A schedule is its seed:
// see tests/support/schedules.h.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "groups/lossy_scheduler.h"
#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/schedules.h"

namespace keyway {
namespace {

using std::chrono::microseconds;

// What is known of one task from the outside.
struct Known {
  std::string group;
  int priority = 0;
  bool waits_for_room = false;  // perhaps: then nobody knows when it gets into the queue
  int cost = 1;
  int number = 0;  // as they were submitted
  TimePoint expires = TimePoint::max();
  int submitted = 0;
  int started = 0;
  int completed = 0;
  int rejected = 0;
  std::optional<TaskStatus> status;
};

class Schedule final : public TaskLifecycleListener {
 public:
  Schedule(std::uint64_t seed, bool loses_wakeups)
      : sim_(seed), scheduler_(sim_, loses_wakeups), seed_(seed) {}

  // The first thing that was wrong; empty if nothing was.
  std::string run() {
    make_executor();
    const std::uint64_t operations = 5 + below(40);
    for (std::uint64_t i = 0; i < operations && wrong_.empty(); ++i) do_something();
    end();
    return wrong_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong_;
  }

 private:
  static constexpr std::array<const char*, 4> kGroups{"a", "b", "c", "d"};

  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  void expect(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }

  // What happens, for whoever replays a seed.
  void say(std::string_view what, std::string_view group, std::string_view id = {}) const {
    if (says_all_) std::cerr << what << ' ' << group << ' ' << id << '\n';
  }

  void make_executor() {
    GroupPolicy policy;
    if (one_in(2)) policy.global_max_in_flight = global_limit_ = static_cast<int>(1 + below(4));
    policy.oldest_first = one_in(4);
    const bool shares = one_in(3);
    const bool rated = one_in(4);
    int promised = 0;
    for (std::size_t i = 0; i < kGroups.size(); ++i) {
      limits_[i] = static_cast<int>(1 + below(3));
      GroupLimits limits{.max_concurrency = limits_[i]};
      if (one_in(3)) limits.queue_threshold = static_cast<int>(below(4));
      if (one_in(4)) limits.max_in_flight = static_cast<int>(1 + below(3));
      in_flight_limits_[i] = limits.max_in_flight.value_or(kUnlimited);
      limits_[i] = least_limits_[i] = policy_limits_[i] =
          std::min(limits_[i], in_flight_limits_[i]);
      if (shares && one_in(2)) limits.weight = static_cast<int>(1 + below(5));
      if (shares && promised < global_limit_ && one_in(2)) limits.guaranteed = 1, ++promised;
      if (rated && one_in(2)) {
        limits.rate = RateLimit{.per_second = 1'000.0 * static_cast<double>(1 + below(100)),
                                .burst = static_cast<int>(1 + below(3))};
        rates_[i] = *limits.rate;
      }
      if (rated && one_in(4)) {
        limits.max_concurrency.reset();
        limits.adaptive = AdaptiveLimits{.floor = 1, .ceiling = 3};
        adapts_[i] = true;
        least_limits_[i] = std::min(1, in_flight_limits_[i]);
        limits_[i] = policy_limits_[i] = std::min(3, in_flight_limits_[i]);
      }
      policy.groups[kGroups[i]] = limits;
    }
    if (one_in(3)) policy.global_queue_threshold = static_cast<int>(below(5));
    policy.rejection = static_cast<RejectionPolicy>(below(3));
    policy.observe = one_in(4);
    policy.listener = std::shared_ptr<TaskLifecycleListener>(this, [](auto*) {});
    executor_ = std::make_unique<GroupExecutor>(std::move(policy), scheduler_);
  }

  void do_something() {
    const std::string group = kGroups[below(kGroups.size())];
    const std::size_t index = static_cast<std::size_t>(group[0] - 'a');
    switch (below(19)) {
      case 18:
        explain_something(group);
        break;
      case 17:
        for (std::uint64_t i = below(3); i > 0; --i) submit_conflated(index);
        break;
      case 16:
        submit_or_give_up(index);
        break;
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        submit(group);
        break;
      case 5:
        for (std::uint64_t i = below(8); i > 0; --i) submit(group);
        break;
      case 6:
        if (!handles_.empty()) handles_[below(handles_.size())].cancel();
        break;
      case 7:
        time_out();
        break;
      case 8:
        say("evict", group);
        executor_->evict_group(group);
        // From the next submit on; until then the other one holds.
        least_limits_[index] = std::min(least_limits_[index], policy_limits_[index]);
        limits_[index] = std::max(limits_[index], policy_limits_[index]);
        break;
      case 9:
        if (one_in(3)) executor_->shutdown_group(group);
        break;
      case 10:
        sim_.advance(microseconds(below(300)));
        break;
      case 11: {
        if (adapts_[index]) break;
        const int limit = static_cast<int>(1 + below(4));
        say("limit", group, std::to_string(limit));
        expect(executor_->set_limit(group, limit).ok(), "a limit could not be set");
        limits_[index] = least_limits_[index] = std::min(limit, in_flight_limits_[index]);
        break;
      }
      case 12:
        if (global_limit_ == kUnlimited) break;
        global_limit_ = static_cast<int>(1 + below(4));
        say("global limit", std::to_string(global_limit_));
        expect(executor_->set_global_limit(global_limit_).ok(), "no global limit could be set");
        break;
      case 13:
        pause_or_resume(group, index);
        break;
      default:
        for (std::uint64_t i = below(10); i > 0; --i) scheduler_.run_one();
    }
  }

  void pause_or_resume(const std::string& group, std::size_t index) {
    if (one_in(2)) {
      paused_[index] = !paused_[index];
      say(paused_[index] ? "pause" : "resume", group);
      paused_[index] ? executor_->pause_group(group) : executor_->resume_group(group);
    } else {
      all_paused_ = !all_paused_;
      say(all_paused_ ? "pause" : "resume", "all");
      all_paused_ ? executor_->pause() : executor_->resume();
    }
  }
  void resume_everything() {
    for (const char* group : kGroups) executor_->resume_group(group);
    executor_->resume();
    paused_ = {};
    all_paused_ = false;
  }

  // Waits for a task, but not long enough: the wait is over, the task is not.
  void time_out() {
    if (handles_.empty()) return;
    TaskHandle<int>& handle = handles_[below(handles_.size())];
    if (handle.is_done()) return;
    try {
      const GroupResult<int> result = handle.join_for(microseconds(below(100)));
      if (handle.is_done()) return;
      expect(result.status == TaskStatus::kTimedOut && result.error, "a wait timed out, unsaid");
    } catch (const RejectedError&) {
    } catch (const Exception& error) {
      expect(scheduler_.lost() > 0 && error.code() == ErrorCode::kWaitCycle,
             std::string("a wait was refused: ") + error.what());
    }
  }

  void submit(const std::string& group) {
    const std::string id = std::to_string(next_id_++);
    const std::size_t index = static_cast<std::size_t>(group[0] - 'a');
    switch (below(6)) {
      case 0:
        submit(index, id, [this, index, id] {
          Running running(*this, index, id);
          return 1;
        });
        break;
      case 1:
        submit(index, id, [this, index, id]() -> int {
          Running running(*this, index, id);
          throw 42;  // not an exception class, and still it must arrive
        });
        break;
      case 2:
        submit(index, id, [this, index, id](std::stop_token stop) -> int {
          Running running(*this, index, id);
          if (stop.stop_requested()) throw CancelledError();
          return 1;
        });
        break;
      case 3:
        submit(index, id, [this, index, id, patient = one_in(2)] {
          return patient ? nested_patiently(index, id) : nested(index, id);
        });
        break;
      default:
        submit(index, id, [this, index, id, naps = 1 + below(3)] {
          return nap(index, id, naps, microseconds(1 + below(100)));
        });
    }
  }

  // Plain, or with a cost, a priority, or a time to begin.
  template <class F>
  void submit(std::size_t index, const std::string& id, F work) {
    Known& task = known_[id];
    if (!one_in(3)) return keep(executor_->submit(kGroups[index], id, std::move(work)));
    TaskOptions options{.id = id};
    if (one_in(2)) options.cost = task.cost = static_cast<int>(1 + below(4));
    if (one_in(2)) options.priority = task.priority = static_cast<int>(below(4)) - 2;
    if (one_in(3)) {
      options.start_within = microseconds(below(200));
      task.expires = sim_.now() + *options.start_within;
    }
    keep(executor_->submit(kGroups[index], options, std::move(work)));
  }

  void keep(TaskHandle<int> handle) {
    submitting_.clear();
    handles_.push_back(std::move(handle));
  }

  Task<int> nap(std::size_t index, std::string id, std::uint64_t naps, Duration length) {
    Running running(*this, index, id);
    for (; naps > 0; --naps) co_await sleep_for(length);
    co_return 1;
  }

  // Submits to its own or another group, and waits for it.
  // A cycle, the end of the executor, or a stop request to the waiting task.
  static bool may_end_a_wait(ErrorCode code) {
    return code == ErrorCode::kWaitCycle || code == ErrorCode::kShutdown ||
           code == ErrorCode::kCancelled;
  }

  Task<int> nested(std::size_t index, std::string id) {
    std::optional<Running> running(std::in_place, *this, index, id);
    const std::size_t inner_index = below(kGroups.size());
    const std::string inner_id = id + "-inner";
    try {
      TaskHandle<int> inner =
          executor_->submit(kGroups[inner_index], inner_id, [this, inner_index, inner_id] {
            Running inner_running(*this, inner_index, inner_id);
            return 1;
          });
      submitting_.clear();
      running.reset();  // it may have given its permits back from here
      co_await inner;
    } catch (const RejectedError&) {
    } catch (const Exception& error) {
      expect(may_end_a_wait(error.code()), std::string("a nested wait failed: ") + error.what());
    }
    co_return 1;
  }

  // The same, and waits for room if there is none.
  Task<int> nested_patiently(std::size_t index, std::string id) {
    std::optional<Running> running(std::in_place, *this, index, id);
    const std::size_t inner_index = below(kGroups.size());
    const std::string inner_id = id + "-inner";
    known_[inner_id].waits_for_room = true;
    running.reset();
    try {
      const TaskOptions options{.id = inner_id};
      const auto work = [this, inner_index, inner_id] {
        Running inner_running(*this, inner_index, inner_id);
        return 1;
      };
      auto submitted = executor_->submit_async(kGroups[inner_index], options, work);
      Result<TaskHandle<int>> inner = co_await submitted;
      if (inner.ok() && one_in(2)) co_await *inner;
      expect(inner.ok() || may_end_a_wait(inner.error().code), "a patient submit failed");
    } catch (const RejectedError&) {
    } catch (const Exception& error) {
      expect(may_end_a_wait(error.code()),
             std::string("a patient nested wait failed: ") + error.what());
    }
    co_return 1;
  }

  // From outside, blocking for a while if it must, or not at all.
  void submit_or_give_up(std::size_t index) {
    const std::string id = std::to_string(next_id_++);
    say("submit or give up", kGroups[index], id);
    known_[id].waits_for_room = true;
    const auto work = [this, index, id] {
      Running running(*this, index, id);
      return 1;
    };
    const TaskOptions options{.id = id};
    Result<TaskHandle<int>> handle =
        one_in(2)
            ? executor_->try_submit(kGroups[index], options, work)
            : executor_->try_submit_for(kGroups[index], microseconds(below(200)), options, work);
    if (handle.ok()) return keep(std::move(*handle));
    expect(
        handle.error().code == ErrorCode::kRejected || handle.error().code == ErrorCode::kTimeout,
        "a submit failed: " + handle.error().message);
    expect(known_[id].rejected == 1, "a task was turned away, unsaid");
  }

  // Their ids begin with a c, and are used again and again: they are only counted.
  void submit_conflated(std::size_t index) {
    const std::string id = "c" + std::to_string(below(2));
    TaskOptions options{.id = id, .conflation = static_cast<Conflation>(1 + below(4))};
    if (one_in(4)) options.start_within = microseconds(below(200));
    if (one_in(4)) options.priority = 1;
    conflated_.push_back(
        executor_->submit(kGroups[index], options, [this, index, id, naps = below(3)] {
          return nap(index, id, naps, microseconds(1 + below(50)));
        }));
    submitting_.clear();
  }
  static bool is_conflated(std::string_view id) { return id.starts_with('c'); }

  void explain_something(const std::string& group) {
    const Explanation why = executor_->explain(group);
    const GroupStats stats = executor_->group_stats(group);
    expect(why.running == stats.running && why.waiting == stats.waiting, "explain() miscounts");
    expect(why.waiting > 0 || why.held_back_by == HeldBackBy::kNothing,
           "nobody waits, and is held back: " + why.text());
    if (handles_.empty()) return;
    const TaskHandle<int>& handle = handles_[below(handles_.size())];
    const Explanation of_task = executor_->explain(handle);
    expect(of_task.task_state.empty() == false, "a task is in no state");
    expect(handle.is_done() == (of_task.task_state != "waits" && of_task.task_state != "runs"),
           "a task is done or not: " + of_task.text());
    (void)executor_->hot_groups(2);
  }

  // Counts who runs, as the tasks themselves see it. A task that its caller runs does not count.
  class Running {
   public:
    Running(Schedule& schedule, std::size_t index, const std::string& id)
        : schedule_(schedule),
          index_(index),
          counts_(!schedule.caller_runs(id)),
          units_(std::min(schedule.known_[id].cost, schedule.least_limits_[index])) {
      if (!counts_) return;
      schedule_.running_[index_] += units_;
      ++schedule_.running_in_all_;
      schedule_.expect(schedule_.running_[index_] <= schedule_.limits_[index_],
                       std::string("group ") + kGroups[index_] + " is over its limit");
      schedule_.expect(schedule_.running_in_all_ <= schedule_.global_limit_,
                       "over the global limit");
    }
    ~Running() {
      if (!counts_) return;
      schedule_.running_[index_] -= units_;
      --schedule_.running_in_all_;
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Schedule& schedule_;
    const std::size_t index_;
    const bool counts_;
    const int units_;
  };
  // A task that starts while its submit has not returned runs on its caller: nothing else runs in
  // a simulation meanwhile.
  bool caller_runs(const std::string& id) {
    return submitting_ == id && !known_[id].waits_for_room;
  }

  void on_submitted(std::string_view group, std::string_view id) override {
    ++submits_;
    if (is_conflated(id)) {
      say("submitted", group, id);
      submitting_ = id;
      return;
    }
    Known& task = known_[std::string(id)];
    say("submitted", group, id);
    expect(++task.submitted == 1, "submitted twice");
    task.group = group;
    task.number = ++submitted_;
    submitting_ = id;
  }
  void on_started(std::string_view group, std::string_view id) override {
    say("started", group, id);
    if (is_conflated(id)) {
      if (!caller_runs(std::string(id))) check_rate(static_cast<std::size_t>(group[0] - 'a'));
      return;
    }
    Known& task = known_[std::string(id)];
    expect(++task.started == 1 && task.submitted == 1 && task.completed + task.rejected == 0,
           "started out of order: " + std::string(id));
    if (caller_runs(std::string(id))) return;
    expect(!all_paused_ && !paused_[static_cast<std::size_t>(group[0] - 'a')],
           "started while it was paused: " + std::string(id));
    expect(sim_.now() <= task.expires, "started too late: " + std::string(id));
    check_rate(static_cast<std::size_t>(group[0] - 'a'));
    for (const auto& [other_id, other] : known_) {
      // A task that has expired has left its queue; its users hear of it a moment later.
      const bool waits =
          other.started + other.completed + other.rejected == 0 && sim_.now() < other.expires;
      if (!waits || other.group != group || other.waits_for_room || task.waits_for_room) continue;
      expect(other.priority < task.priority ||
                 (other.priority == task.priority && other.number > task.number),
             std::string(id) + " started before " + other_id);
    }
  }
  // In any time t no more than burst + rate * t begin.
  void check_rate(std::size_t index) {
    if (!rates_[index]) return;
    std::vector<TimePoint>& starts = starts_[index];
    starts.push_back(sim_.now());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const double seconds = std::chrono::duration<double>(starts.back() - starts[i]).count();
      expect(static_cast<double>(starts.size() - i) <=
                 rates_[index]->burst + rates_[index]->per_second * seconds + 1e-3,
             std::string("group ") + kGroups[index] + " is over its rate");
    }
  }
  void on_completed(std::string_view group, std::string_view id,
                    const TaskOutcome& outcome) override {
    say("completed", group, id);
    ++ends_;
    if (is_conflated(id)) return;
    Known& task = known_[std::string(id)];
    expect(++task.completed == 1 && task.submitted == 1 && task.rejected == 0,
           "completed out of order: " + std::string(id));
    expect(task.started == 1 || outcome.status == TaskStatus::kCancelled ||
               (outcome.status == TaskStatus::kExpired && sim_.now() >= task.expires),
           "completed unstarted: " + std::string(id));
    task.status = outcome.status;
  }
  void on_rejected(std::string_view group, std::string_view id, RejectionReason) override {
    say("rejected", group, id);
    ++ends_;
    if (is_conflated(id)) return;
    Known& task = known_[std::string(id)];
    expect(++task.rejected == 1 && task.submitted == 1 && task.started + task.completed == 0,
           "rejected out of order: " + std::string(id));
    task.status = TaskStatus::kRejected;
  }

  void end() {
    if (wrong_.empty() && !one_in(4)) run_to_the_end();
    scheduler_.find_lost();
    all_paused_ = false;  // whoever shuts down resumes
    paused_ = {};
    if (one_in(3)) executor_->shutdown();
    if (one_in(3)) executor_->shutdown(microseconds(below(200)));
    executor_.reset();
    for (std::size_t i = 0; i < handles_.size(); ++i) check_end(handles_[i]);
    for (const auto& [id, task] : known_) {
      if (is_conflated(id)) continue;
      expect(task.completed + task.rejected == 1, "task " + id + " has no end");
    }
    for (const TaskHandle<int>& handle : conflated_) {
      expect(handle.is_done(), "a handle of a conflated task waits for ever");
    }
    expect(submits_ == ends_, "not every task has one end");
    expect(running_in_all_ == 0, "somebody still runs");
  }

  // Nothing is ready, nobody sleeps: then nobody may wait.
  void run_to_the_end() {
    resume_everything();
    sim_.run_until_idle();
    const GroupStats stats = executor_->stats();
    expect(stats.waiting == 0, "a wake-up was lost: " + std::to_string(stats.waiting) + " wait");
    expect(stats.running == 0, "a permit was lost: " + std::to_string(stats.running) + " run");
    expect(stats.submitted == submits_, "not all that was submitted was counted");
    expect(stats.submitted ==
               stats.succeeded + stats.failed + stats.cancelled + stats.expired + stats.rejected,
           "the counts do not add up");
    expect(executor_->active_group_keys().empty(), "an idle group is active");
  }

  void check_end(TaskHandle<int>& handle) {
    if (!handle.is_done()) {
      expect(false, "a handle waits for ever");
      return;
    }
    TaskStatus status = TaskStatus::kRejected;
    try {
      status = handle.join().status;
    } catch (const RejectedError&) {
    } catch (const Exception& error) {
      if (error.code() == ErrorCode::kResultTaken) return;
      expect(false, error.what());
    }
    expect(status == known_[std::string(handle.task_id())].status,
           "a handle and its listener disagree");
  }

  testing::SimScheduler sim_;
  LossyScheduler scheduler_;
  const std::uint64_t seed_;
  const bool says_all_ = replays_a_seed();
  std::string wrong_;
  std::array<int, 4> limits_{};
  std::array<int, 4> least_limits_{};
  std::array<int, 4> policy_limits_{};
  std::array<int, 4> in_flight_limits_{};
  std::array<std::optional<RateLimit>, 4> rates_{};
  std::array<std::vector<TimePoint>, 4> starts_{};
  std::array<bool, 4> adapts_{};
  std::array<bool, 4> paused_{};
  bool all_paused_ = false;
  std::array<int, 4> running_{};
  int global_limit_ = kUnlimited;
  int running_in_all_ = 0;
  int next_id_ = 0;
  std::string submitting_;
  int submitted_ = 0;
  std::uint64_t submits_ = 0;
  std::uint64_t ends_ = 0;
  std::vector<TaskHandle<int>> conflated_;
  std::map<std::string, Known> known_;
  std::deque<TaskHandle<int>> handles_;
  std::unique_ptr<GroupExecutor> executor_;
};

// Four parts, so that they run side by side.
class GroupSchedules : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(GroupSchedules, KeepWhatMustAlwaysBeTrue) {
  expect_schedules_hold<Schedule>(GetParam(), 50'000);
}
INSTANTIATE_TEST_SUITE_P(Part, GroupSchedules, ::testing::Values(0, 1, 2, 3));

TEST(GroupSchedulesWithAPlantedBug, FindALostWakeUpAndReplayIt) {
  expect_planted_bug_is_found<Schedule>("a wake-up was lost");
}

}  // namespace
}  // namespace keyway
