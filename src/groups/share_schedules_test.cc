// Weights and guarantees under a global limit that is always reached, in random schedules under virtual time: see
// tests/support/schedules.h. Every group has tasks in its queue until the end, so each that is not at a limit of its own
// stands in the gate's line whenever a permit comes free, or its turn is on its way if several come free at once.
#include <algorithm>
#include <array>
#include <chrono>
#include <coroutine>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/schedules.h"

namespace keyway {
namespace {

// `kBursts`: tasks end at the same moments, several at once.
template <bool kBursts>
class ShareSchedule final : public TaskLifecycleListener {
 public:
  // `ignores`: a planted bug; the oracle is told other weights or guarantees than the executor.
  ShareSchedule(std::uint64_t seed, bool ignores) : sim_(seed), seed_(seed), ignores_(ignores) {}

  // The first thing that was wrong; empty if nothing was.
  std::string run() {
    make_executor();
    executor_->pause();
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      for (int task = 0; task < kTasks; ++task) {
        handles_.push_back(executor_->submit(name_of(i), [this, i] { return nap(i); }));
      }
    }
    executor_->resume();
    sim_.run_ready();  // all permits are taken, and every group stands in line
    counts_ = true;
    while (wrong_.empty() && all_have_tasks()) {
      if (sim_.ready_count() == 0) {
        check_all_permits_are_used();
        check_guarantees_come_back();
        end_burst(1 + below(running_until_burst_.size() + 1));
      }
      if (!sim_.run_one()) break;
    }
    counts_ = false;
    while (!running_until_burst_.empty()) {
      end_burst(running_until_burst_.size());
      sim_.run_ready();
    }
    executor_.reset();
    return wrong_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong_;
  }

 private:
  static constexpr int kTasks = 30;
  // In a burst, the turn of a lane that was given a permit may not have run yet when other lanes start tasks.
  static constexpr int kOnTheirWay = kBursts ? 1 : 0;

  struct Group {
    int weight = 1;
    int guaranteed = 0;
    int limit = 0;  // of its own; above the global one: none
    int running = 0;
    int waiting = kTasks;
    int starts = 0;  // since all permits were taken
    // Of each group, when a task last began while this one was at its own limit.
    std::vector<int> starts_before{};
  };

  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  static std::string name_of(std::size_t index) {
    return std::string(1, static_cast<char>('a' + index));
  }
  void expect(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  bool all_have_tasks() const {
    for (const Group& group : groups_) {
      if (group.waiting == 0) return false;
    }
    return true;
  }

  void make_executor() {
    const int limit = static_cast<int>(1 + below(kBursts ? 12 : 4));
    limit_ = limit;
    const bool guarantees = below(2) == 0;
    const bool own_limits = below(2) == 0;
    const bool tells_weights = ignores_ && below(2) == 0;
    groups_.resize(2 + below(3));
    GroupPolicy policy{.global_max_in_flight = limit};
    policy.listener = std::shared_ptr<TaskLifecycleListener>(this, [](auto*) {});
    int promised = 0;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Group& group = groups_[i];
      group.weight = static_cast<int>(1 + below(5));
      group.starts_before.resize(groups_.size());
      group.limit = own_limits && below(2) == 0
                        ? 1 + static_cast<int>(below(static_cast<std::uint64_t>(limit_)))
                        : limit_ + 1;
      if (guarantees && promised < limit) {
        const int most = std::min(limit - promised, group.limit);
        group.guaranteed = static_cast<int>(below(static_cast<std::uint64_t>(most) + 1));
        promised += group.guaranteed;
      }
      policy.groups[name_of(i)] = {
          .max_concurrency = group.limit, .weight = group.weight, .guaranteed = group.guaranteed};
      most_running_ += group.limit;
      if (!ignores_) continue;
      if (tells_weights) {
        group.weight = 6 - group.weight;
      } else if (group.guaranteed == 0 && promised < limit) {
        ++group.guaranteed;
      }
    }
    most_running_ = std::min(most_running_, limit_);
    executor_ = std::make_unique<GroupExecutor>(std::move(policy), sim_);
  }

  struct Burst {
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { waiters.push_back(waiter); }
    void await_resume() const {}
    std::vector<std::coroutine_handle<>>& waiters;
  };
  void end_burst(std::size_t tasks) {
    for (; tasks > 0 && !running_until_burst_.empty(); --tasks) {
      const std::size_t index = below(running_until_burst_.size());
      std::swap(running_until_burst_[index], running_until_burst_.back());
      const std::coroutine_handle<> waiter = running_until_burst_.back();
      running_until_burst_.pop_back();
      waiter.resume();
    }
  }

  // Without bursts no two end at the same time, so every group stands in line again before the next permit comes free.
  Task<int> nap(std::size_t index) {
    if constexpr (kBursts) {
      co_await Burst{running_until_burst_};
      co_await reschedule();
    } else {
      TimePoint end = sim_.now() + std::chrono::nanoseconds(1 + below(100'000));
      while (!ends_.insert(end).second) end += std::chrono::nanoseconds(1);
      co_await sleep_for(end - sim_.now());
    }
    --groups_[index].running;
    co_return 1;
  }

  void on_started(std::string_view key, std::string_view) override {
    const auto index = static_cast<std::size_t>(key[0] - 'a');
    Group& group = groups_[index];
    if (counts_) {
      if (!kBursts) check_guarantees(index);
      ++group.starts;
      check_weights();
      if (!kBursts) check_shares_after_own_limits();
    }
    ++group.running;
    --group.waiting;
  }

  // Nothing is ready, so no lane is coming: then no lane stands in line while a permit is free.
  void check_all_permits_are_used() {
    int running = 0;
    for (const Group& group : groups_) running += group.running;
    expect(running == most_running_, "a permit is free while every group has tasks");
  }

  // In a burst, a task may start with a permit from before the ends of others. But when nothing is ready, the groups lack no
  // more of their guarantees than before the burst.
  void check_guarantees_come_back() {
    int lacking = 0;
    for (const Group& group : groups_) lacking += std::max(0, group.guaranteed - group.running);
    expect(lacking <= lacking_, "a guarantee does not come back after a burst");
    lacking_ = lacking;
  }

  // A group that has its guarantee comes after the groups below theirs.
  void check_guarantees(std::size_t index) {
    if (groups_[index].running < groups_[index].guaranteed) return;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (i == index) continue;
      expect(groups_[i].waiting == 0 || groups_[i].running >= groups_[i].guaranteed,
             "group " + name_of(i) + " does not get what it was guaranteed");
    }
  }

  // Start-time fair queueing: between two groups in line, the starts per weight differ by no more than one start of each.
  // A guarantee may give its group more, and a limit of its own less.
  void check_weights() {
    for (const Group& more : groups_) {
      if (more.guaranteed > 0) continue;
      for (const Group& less : groups_) {
        if (less.guaranteed > 0 || less.limit <= limit_) continue;
        expect(difference(more, more.starts, less, less.starts) <= allowed(more, less),
               "the starts do not follow the weights");
      }
    }
  }

  // A group that comes below its own limit has kept its place: as long as no task of another group begins while it is at its
  // limit, it does not get less than its share.
  void check_shares_after_own_limits() {
    for (Group& less : groups_) {
      if (less.guaranteed > 0) continue;
      const bool at_limit = less.running >= less.limit;
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        Group& more = groups_[i];
        const std::size_t own = static_cast<std::size_t>(&less - groups_.data());
        if (at_limit) {
          less.starts_before[i] = more.starts;
        } else if (more.guaranteed == 0 && i != own) {
          expect(difference(more, more.starts - less.starts_before[i], less,
                            less.starts - less.starts_before[own]) <= allowed(more, less),
                 "a group that was at its own limit has lost its share");
        }
      }
    }
  }

  static double difference(const Group& more, int starts_of_more, const Group& less,
                           int starts_of_less) {
    return static_cast<double>(starts_of_more) / more.weight -
           static_cast<double>(starts_of_less) / less.weight;
  }
  static double allowed(const Group& more, const Group& less) {
    constexpr double kStarts = 1.0 + kOnTheirWay;
    return kStarts / more.weight + kStarts / less.weight + 1e-9;
  }

  testing::SimScheduler sim_;
  const std::uint64_t seed_;
  const bool ignores_;
  std::string wrong_;
  int limit_ = 0;
  int most_running_ = 0;
  int lacking_ = std::numeric_limits<int>::max();
  bool counts_ = false;
  std::vector<Group> groups_;
  std::set<TimePoint> ends_;
  std::vector<std::coroutine_handle<>> running_until_burst_;
  std::vector<TaskHandle<int>> handles_;
  std::unique_ptr<GroupExecutor> executor_;
};

TEST(ShareSchedules, FollowWeightsAndGuarantees) {
  expect_schedules_hold<ShareSchedule<false>>(0, 4'000);
}

TEST(ShareSchedules, FollowWeightsAndGuaranteesWhenTasksEndInBursts) {
  expect_schedules_hold<ShareSchedule<true>>(0, 2'000);
}

TEST(ShareSchedulesWithAPlantedBug, FindOtherWeights) {
  expect_planted_bug_is_found<ShareSchedule<false>>("the starts do not follow the weights");
}

TEST(ShareSchedulesWithAPlantedBug, FindAGuaranteeThatIsNotKept) {
  expect_planted_bug_is_found<ShareSchedule<false>>("does not get what it was guaranteed");
}

}  // namespace
}  // namespace keyway
