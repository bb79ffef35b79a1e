// Random tasks that hold locks and wait for other tasks within limits, on any or on a bounded number of threads, in
// random order, under virtual time. A schedule is its seed: see tests/support/schedules.h. Locks by themselves, with
// nesting, branches and sharing: lock_schedules_test.cc.
#include <algorithm>
#include <array>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"
#include "support/schedules.h"
#include "support/sim_threads.h"

namespace keyway {
namespace {

using std::chrono::microseconds;

class Schedule {
 public:
  // `lets_go`: a bug on purpose; each guard is released as soon as it is taken.
  Schedule(std::uint64_t seed, bool lets_go)
      : owned_sim_(std::make_unique<testing::SimScheduler>(seed)),
        threads_(sim_, one_in(2) ? 1 + below(3) : Scheduler::kUnlimitedThreads),
        seed_(seed),
        lets_go_(lets_go) {}

  // The first thing that was wrong; empty if nothing was.
  std::string run() {
    GroupPolicy policy;
    for (Group& group : groups_) {
      group.limit = static_cast<int>(1 + below(2));
      policy.groups[group.key].max_concurrency = group.limit;
    }
    if (one_in(2)) policy.global_max_in_flight = global_limit_ = static_cast<int>(1 + below(3));
    executor_ = std::make_unique<GroupExecutor>(std::move(policy), threads_);
    for (std::uint64_t i = 2 + below(6); i > 0; --i) handles_.push_back(submit(0));
    for (std::uint64_t i = below(60); i > 0; --i) {
      if (one_in(15)) cancel_one();
      if (one_in(15)) handles_.push_back(submit(0));
      if (!sim_.run_one()) break;
    }
    sim_.run_until_idle();
    const bool done = std::all_of(handles_.begin(), handles_.end(),
                                  [](const auto& handle) { return handle.is_done(); });
    expect(done, "a task waits for ever");
    const bool idle = executor_->stats().running == 0;
    expect(idle, "a task still runs");
    if (done && idle) {
      executor_.reset();
      expect(locks_->active_lock_count() == 0, "a lock was left behind");
    } else {
      (void)executor_.release();  // what waits for ever cannot be destroyed
      (void)locks_.release();
      (void)owned_sim_.release();
    }
    return wrong_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong_;
  }

 private:
  static constexpr std::array<const char*, 3> kKeys{"x", "y", "z"};
  static constexpr int kDeepest = 2;  // of tasks that submit tasks

  struct Group {
    std::string key;
    int limit = 1;
    int running = 0;  // tasks that have begun and do not wait for one of their group
  };
  struct Me {
    std::string id;
    std::size_t group = 0;
    int depth = 0;
    std::set<std::string> keys{};  // that it holds
  };
  struct Ask {
    std::string who;
    bool may_leave;  // it may have given up by now
  };
  struct Key {
    std::string holder;
    std::deque<Ask> line;
  };
  enum class Ends { kWhenDone, kByItself };  // a wait

  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  Duration a_while() { return microseconds(below(40)); }
  void expect(bool holds, const std::string& what) {
    if (holds || !wrong_.empty()) return;
    wrong_ = what;
    say("wrong: " + what);
  }
  void say(const std::string& what) const {
    if (says_all_) std::cerr << what << '\n';
  }

  TaskHandle<void> submit(int depth) {
    const std::size_t group = below(groups_.size());
    const std::string id = std::to_string(next_id_++);
    say("submit " + id + " to " + groups_[group].key);
    group_of_[id] = group;
    if (one_in(3)) {
      return executor_->submit(groups_[group].key, id, [this, id, group, depth] {
        Me me{.id = id, .group = group, .depth = depth};
        const Running running(*this, me);
        for (std::uint64_t steps = 1 + below(4); steps > 0; --steps) blocking_step(me);
        release_all(me);
      });
    }
    return executor_->submit(groups_[group].key, id,
                             [this, id, group, depth] { return work(id, group, depth); });
  }
  void cancel_one() {
    TaskHandle<void>& handle = handles_[below(handles_.size())];
    say("cancel " + std::string(handle.task_id()));
    cancelled_.insert(std::string(handle.task_id()));
    handle.cancel();
  }

  // ---- what tasks do

  Task<void> work(std::string id, std::size_t group, int depth) {
    Me me{.id = std::move(id), .group = group, .depth = depth};
    const Running running(*this, me);
    try {
      for (std::uint64_t steps = 1 + below(4); steps > 0; --steps) co_await step(me);
    } catch (const CancelledError&) {
      expect(cancelled_.contains(me.id), me.id + " was cancelled for no reason");
    }
    release_all(me);
  }

  Task<void> step(Me& me) {
    switch (below(9)) {
      case 0:
      case 1:
        return lock(me, Ends::kWhenDone);
      case 2:
      case 3:
        return wait_for_a_child(me, Ends::kWhenDone);
      case 4:
        return within(a_while(), lock(me, Ends::kByItself));
      case 5:
        return within(a_while(), wait_for_a_child(me, Ends::kByItself));
      case 6:
        return first_of(lock(me, Ends::kByItself), pass(a_while()));
      case 7:
        release_all(me);
        return pass(a_while());
      default:
        return pass(a_while());
    }
  }
  static Task<void> pass(Duration time) { co_await sleep_for(time); }
  static Task<void> within(Duration time, Task<void> task) {
    try {
      co_await with_timeout(time, std::move(task));
    } catch (const TimeoutError&) {
    }
  }
  static Task<void> first_of(Task<void> one, Task<void> other) {
    co_await when_any(std::move(one), std::move(other));
  }

  // In a race the lock belongs to the branch, which releases it before it ends.
  Task<void> lock(Me& me, Ends ends) {
    const std::string key = kKeys[below(kKeys.size())];
    if (me.keys.contains(key)) co_return;
    const bool in_race = ends == Ends::kByItself;
    KeyLocks::Guard guard;
    {
      const Waiting waiting(*this, me, key, std::nullopt, in_race, false);
      try {
        guard = co_await locks_->lock_async(key);
        check_turn(me, key);
      } catch (const Exception& error) {
        check_refusal(me, error, in_race);
        if (error.code() == ErrorCode::kCancelled) throw;
        co_return;
      }
    }
    took(me, key, guard);
    if (!in_race) {
      guards_[me.id].push_back(std::move(guard));
      co_return;
    }
    try {
      co_await sleep_for(microseconds(below(10)));
    } catch (const CancelledError&) {
    }
    gives_back(me, key);
  }

  Task<void> wait_for_a_child(Me& me, Ends ends) {
    if (me.depth == kDeepest) co_return;
    const bool in_race = ends == Ends::kByItself;
    TaskHandle<void> child = submit(me.depth + 1);
    const Waiting waiting(*this, me, "", std::string(child.task_id()), in_race, false);
    try {
      (void)co_await child;
    } catch (const Exception& error) {
      check_refusal(me, error, in_race);
      if (error.code() == ErrorCode::kCancelled) throw;
    }
  }

  void blocking_step(Me& me) {
    const std::string key = kKeys[below(kKeys.size())];
    const bool bounded = one_in(3);
    if (one_in(2) && me.depth < kDeepest) {
      TaskHandle<void> child = submit(me.depth + 1);
      const Waiting waiting(*this, me, "", std::string(child.task_id()), false, bounded);
      try {
        (void)(bounded ? child.join_for(a_while()) : child.join());
      } catch (const Exception& error) {
        check_refusal(me, error, /*in_race=*/false, bounded);
      }
    } else if (!me.keys.contains(key)) {
      KeyLocks::Guard guard;
      {
        const Waiting waiting(*this, me, key, std::nullopt, false, bounded);
        try {
          guard = bounded ? locks_->try_lock_for(key, a_while()) : locks_->lock(key);
          if (guard) check_turn(me, key);
        } catch (const Exception& error) {
          check_refusal(me, error, /*in_race=*/false, bounded);
        }
      }
      if (!guard) return;
      took(me, key, guard);
      guards_[me.id].push_back(std::move(guard));
    }
  }

  // ---- what is seen from outside

  // From the first to the last line of a task.
  class Running {
   public:
    Running(Schedule& schedule, const Me& me) : schedule_(schedule), me_(me) {
      schedule_.say("started " + me_.id);
      schedule_.started_.insert(me_.id);
      schedule_.begin_running(me_, true);
    }
    ~Running() {
      schedule_.say("ends " + me_.id);
      schedule_.end_running(me_, true);
      schedule_.ended_.insert(me_.id);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Schedule& schedule_;
    const Me& me_;
  };
  // A task waits for a key, or for a task. It gives its global permit back, and its group's for one of the same group.
  class Waiting {
   public:
    // `in_race`: another branch ends it. `bounded`: it has a timeout.
    Waiting(Schedule& schedule, const Me& me, std::string key, std::optional<std::string> target,
            bool in_race, bool bounded)
        : schedule_(schedule), me_(me), key_(std::move(key)), target_(std::move(target)) {
      schedule_.say(me_.id + " waits for " + (target_ ? *target_ : key_));
      if (!key_.empty()) schedule_.keys_[key_].line.push_back({me_.id, in_race || bounded});
      if (target_) schedule_.targets_[me_.id] = *target_;
      ++schedule_.waits_[me_.id];
      schedule_.end_running(me_, own_group());
    }
    ~Waiting() {
      schedule_.say(me_.id + " goes on");
      schedule_.begin_running(me_, own_group());
      --schedule_.waits_[me_.id];
      if (target_) schedule_.targets_.erase(me_.id);
      if (!key_.empty()) {
        std::erase_if(schedule_.keys_[key_].line,
                      [&](const Ask& ask) { return ask.who == me_.id; });
      }
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    bool own_group() const { return target_ && schedule_.group_of_[*target_] == me_.group; }

    Schedule& schedule_;
    const Me& me_;
    const std::string key_;
    const std::optional<std::string> target_;
  };

  void begin_running(const Me& me, bool in_group) {
    if (in_group) ++groups_[me.group].running;
    ++running_;
    expect(groups_[me.group].running <= groups_[me.group].limit,
           "group " + groups_[me.group].key + " is over its limit");
    expect(running_ <= global_limit_, "over the global limit");
  }
  void end_running(const Me& me, bool in_group) {
    if (in_group) --groups_[me.group].running;
    --running_;
  }
  void check_turn(const Me& me, const std::string& key) {
    for (const Ask& ask : keys_[key].line) {
      if (ask.who == me.id) return;
      expect(ask.may_leave || cancelled_.contains(ask.who),
             me.id + " has " + key + " before " + ask.who);
    }
  }
  void took(Me& me, const std::string& key, KeyLocks::Guard& guard) {
    say(me.id + " has " + key);
    expect(keys_[key].holder.empty(), me.id + " and " + keys_[key].holder + " both have " + key);
    keys_[key].holder = me.id;
    me.keys.insert(key);
    if (lets_go_) guard.release();
  }
  void gives_back(Me& me, const std::string& key) {
    if (keys_[key].holder == me.id) keys_[key].holder.clear();
    me.keys.erase(key);
  }
  void release_all(Me& me) {
    for (const std::string& key : std::set<std::string>(me.keys)) gives_back(me, key);
    guards_.erase(me.id);
  }

  // Whether the wait may end so. `bounded`: it has a timeout of its own.
  void check_refusal(const Me& me, const Exception& error, bool in_race, bool bounded = false) {
    say(me.id + " is refused: " + error.what());
    switch (error.code()) {
      case ErrorCode::kCancelled:
        return expect(in_race || cancelled_.contains(me.id),
                      me.id + " was cancelled for no reason");
      case ErrorCode::kNoThread:
        return expect(no_thread_is_free(), "there are threads: " + std::string(error.what()));
      case ErrorCode::kWaitCycle:
        return expect(may_be_refused(me.id, in_race) && !bounded,
                      "not a cycle: " + std::string(error.what()));
      default:
        expect(false, "a wait failed: " + std::string(error.what()));
    }
  }
  // All threads are inside items, and all but the caller's block.
  bool no_thread_is_free() const {
    return threads_.bounded() && threads_.threads_in_items() == threads_.max_threads();
  }
  bool may_be_refused(const std::string& task, bool in_race) {
    // Where tasks wait for each other because none of them has a thread, the error names their waits: kWaitCycle.
    if (no_thread_is_free()) return true;
    return !in_race && dependencies(task).contains(task);
  }
  // What has to go on before the task can; more than is necessary. Waits that end by themselves are included.
  std::set<std::string> dependencies(const std::string& task) {
    std::set<std::string> seen;
    std::vector<std::string> next{task};
    while (!next.empty()) {
      const std::string from = next.back();
      next.pop_back();
      const auto add = [&](const std::string& to) {
        if (!to.empty() && seen.insert(to).second) next.push_back(to);
      };
      if (const auto target = targets_.find(from); target != targets_.end()) add(target->second);
      for (const auto& [key, state] : keys_) {
        if (std::none_of(state.line.begin(), state.line.end(),
                         [&](const Ask& ask) { return ask.who == from; })) {
          continue;
        }
        add(state.holder);
        for (const Ask& other : state.line) {
          if (other.who != from) add(other.who);  // it may have the key, and be about to go on
        }
      }
      // To begin or to go on it needs a permit of its group.
      if (started_.contains(from) && waits_[from] == 0) continue;
      for (const auto& [other, group] : group_of_) {
        if (group == group_of_[from] && !ended_.contains(other) && other != from) add(other);
      }
    }
    return seen;
  }

  std::unique_ptr<testing::SimScheduler> owned_sim_;
  testing::SimScheduler& sim_ = *owned_sim_;
  SimThreads threads_;
  const std::uint64_t seed_;
  const bool lets_go_;
  const bool says_all_ = replays_a_seed();
  std::string wrong_;
  std::unique_ptr<KeyLocks> locks_ = std::make_unique<KeyLocks>();
  std::array<Group, 3> groups_{Group{"a"}, Group{"b"}, Group{"c"}};
  int global_limit_ = kUnlimited;
  int running_ = 0;
  int next_id_ = 0;
  std::map<std::string, std::size_t> group_of_;
  std::set<std::string> started_;
  std::set<std::string> ended_;
  std::set<std::string> cancelled_;
  std::map<std::string, int> waits_;
  std::map<std::string, std::string> targets_;
  std::map<std::string, Key> keys_;
  std::map<std::string, std::vector<KeyLocks::Guard>> guards_;
  std::deque<TaskHandle<void>> handles_;
  std::unique_ptr<GroupExecutor> executor_;
};

// Four parts, so that they run side by side.
class LockLimitSchedules : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(LockLimitSchedules, KeepWhatMustAlwaysBeTrue) {
  expect_schedules_hold<Schedule>(GetParam(), 10'000);
}
INSTANTIATE_TEST_SUITE_P(Part, LockLimitSchedules, ::testing::Values(0, 1, 2, 3));

TEST(LockLimitSchedulesWithAPlantedBug, FindALockThatDoesNotHold) {
  expect_planted_bug_is_found<Schedule>(" both have ");
}

}  // namespace
}  // namespace keyway
