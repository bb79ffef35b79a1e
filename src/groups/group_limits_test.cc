// How many run at once, and in what order.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <latch>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// How many are inside, and the most there ever were.
class Peak {
 public:
  void enter() {
    const int now = ++inside_;
    int peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void leave() { --inside_; }
  int value() const { return peak_; }

 private:
  std::atomic<int> inside_ = 0;
  std::atomic<int> peak_ = 0;
};

// Submits tasks that go on only when `together` of them run at the same time, `count` in all,
// spread over the groups. Gives the most that ever ran at once.
int peak_of_meetings(GroupPolicy policy, const std::vector<std::string>& groups, int together,
                     int count) {
  Peak peak;
  std::barrier meeting(together);
  GroupExecutor executor(std::move(policy));
  for (int i = 0; i < count; ++i) {
    EXPECT_TRUE(executor
                    .post(groups[static_cast<std::size_t>(i) % groups.size()],
                          [&] {
                            peak.enter();
                            meeting.arrive_and_wait();
                            peak.leave();
                          })
                    .ok());
  }
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_EQ(executor.stats().succeeded, static_cast<std::uint64_t>(count));
  return peak.value();
}

TEST(GroupLimits, AGroupRunsAsManyTasksAtOnceAsItMayAndNeverMore) {
  EXPECT_EQ(peak_of_meetings({.groups = {{"a", {.max_concurrency = 2}}}}, {"a"}, 2, 40), 2);
  EXPECT_EQ(peak_of_meetings({.default_group = {.max_concurrency = 5}}, {"a"}, 5, 40), 5);
}

TEST(GroupLimits, TheBulkheadHoldsHoweverHighTheConcurrency) {
  const GroupLimits limits{.max_concurrency = 20, .max_in_flight = 5};
  EXPECT_EQ(peak_of_meetings({.default_group = limits}, {"a"}, 5, 20), 5);
}

TEST(GroupLimits, TheConcurrencyHoldsHoweverWideTheBulkhead) {
  const GroupLimits limits{.max_concurrency = 3, .max_in_flight = 20};
  EXPECT_EQ(peak_of_meetings({.default_group = limits}, {"a"}, 3, 21), 3);
}

TEST(GroupLimits, TheGlobalLimitHoldsOverAllGroups) {
  EXPECT_EQ(peak_of_meetings({.default_group = {.max_concurrency = 10}, .global_max_in_flight = 6},
                             {"a", "b", "c", "d"}, 6, 60),
            6);
}

TEST(GroupLimits, GroupsRunSideBySide) {
  const std::vector<std::string> groups{"a", "b", "c", "d", "e", "f", "g", "h"};
  EXPECT_EQ(peak_of_meetings({}, groups, 8, 8), 8);
}

TEST(GroupLimits, WithoutLimitsEverythingRunsAtOnce) {
  EXPECT_EQ(peak_of_meetings({.default_group = {.max_concurrency = kUnlimited}}, {"a"}, 50, 50),
            50);
}

TEST(GroupLimits, ACoroutineHoldsItsPermitsWhileItIsSuspended) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.max_concurrency = 3}, .global_max_in_flight = 4}, sim);
  auto nap = []() -> Task<void> { co_await sleep_for(1s); };
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(executor.post("a", nap).ok());
    EXPECT_TRUE(executor.post("b", nap).ok());
  }
  sim.run_ready();
  EXPECT_EQ(executor.stats().running, 4U);
  EXPECT_EQ(executor.stats().waiting, 8U);
  const TimePoint began = sim.now();
  sim.run_until_idle();
  EXPECT_EQ(sim.now() - began, 3s);
}

// ---- order

TEST(GroupLimits, AtConcurrencyOneTasksRunOneByOneInTheOrderOfTheirSubmits) {
  // Not atomic: the group's limit is all that protects it.
  std::vector<int> order;
  GroupExecutor executor({});
  for (int i = 0; i < 10'000; ++i)
    EXPECT_TRUE(executor.post("a", [&, i] { order.push_back(i); }).ok());
  EXPECT_TRUE(executor.shutdown(1h));
  ASSERT_EQ(order.size(), 10'000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(GroupLimits, TasksOfSeveralSubmittersKeepTheOrderOfEachOfThem) {
  std::array<std::vector<int>, 4> order;
  int sum = 0;
  GroupExecutor executor({.global_max_in_flight = 3});
  {
    std::vector<std::jthread> submitters;
    for (auto& own : order) {
      submitters.emplace_back([&] {
        for (int i = 0; i < 2'500; ++i) {
          EXPECT_TRUE(executor.post("a", [&, i] { own.push_back(i), ++sum; }).ok());
        }
      });
    }
  }
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_EQ(sum, 10'000);
  for (const auto& own : order) EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
}

TEST(GroupLimits, TasksStartInTheOrderOfTheirSubmitsAtAnyConcurrency) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimScheduler sim(seed);
    std::vector<int> order;
    GroupExecutor executor({.default_group = {.max_concurrency = 3}, .global_max_in_flight = 4},
                           sim);
    for (int i = 0; i < 100; ++i) {
      const auto pause = std::chrono::seconds(sim.random_below(5));
      EXPECT_TRUE(executor
                      .post("a",
                            [&, i, pause]() -> Task<void> {
                              order.push_back(i);
                              co_await sleep_for(pause);
                            })
                      .ok());
      EXPECT_TRUE(executor.post("b", [] {}).ok());
    }
    sim.run_until_idle();
    EXPECT_EQ(order.size(), 100U);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

// ---- waiting holds nothing

TEST(GroupLimits, WaitingTasksHoldNoGlobalPermitSoAnIdleGroupIsNeitherRefusedNorDelayed) {
  for (const int threshold : {0, kUnlimited}) {
    std::latch go(1);
    GroupExecutor executor({.global_max_in_flight = 2, .global_queue_threshold = threshold});
    std::vector<TaskHandle<void>> busy;
    for (int i = 0; i < 8; ++i) busy.push_back(executor.submit("busy", "1", [&] { go.wait(); }));
    // It ends before a single task of the busy group has.
    EXPECT_EQ(executor.submit("idle", "1", [] { return 42; }).await().value(), 42);
    EXPECT_FALSE(busy.front().is_done());
    go.count_down();
    for (auto& handle : busy) EXPECT_TRUE(handle.join().ok());
  }
}

// ---- many

TEST(GroupLimits, TenGroupsOfAHundredTasksKeepEveryLimitAndLoseNothing) {
  std::array<Peak, 10> peaks;
  Peak all;
  std::atomic<int> sum = 0;
  GroupExecutor executor({.resolver = [](std::string_view key) { return key.back() - '0' + 1; },
                          .default_group = {.max_in_flight = 6},
                          .global_max_in_flight = 12});
  std::vector<TaskHandle<int>> handles(1000);
  {
    std::vector<std::jthread> submitters;
    for (std::size_t group = 0; group < 10; ++group) {
      submitters.emplace_back([&, group] {
        for (std::size_t i = 0; i < 100; ++i) {
          handles[group * 100 + i] =
              executor.submit("group-" + std::to_string(group), std::to_string(i), [&, group, i] {
                peaks[group].enter();
                all.enter();
                std::this_thread::yield();
                all.leave();
                peaks[group].leave();
                ++sum;
                return static_cast<int>(i);
              });
        }
      });
    }
  }
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_EQ(handles[i].join().value(), static_cast<int>(i % 100));
  }
  EXPECT_EQ(sum, 1000);
  EXPECT_LE(all.value(), 12);
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(peaks[static_cast<std::size_t>(i)].value(), std::min(i + 1, 6));
  }
}

// Everything that can happen to a task, at random, in virtual time.
void run_random(std::uint64_t seed) {
  SimScheduler sim(seed);
  const auto random = [&](int bound) {
    return static_cast<int>(sim.random_below(static_cast<std::uint64_t>(bound)));
  };
  std::set<std::string, std::less<>> run_by_caller;
  GroupPolicy policy{.global_max_in_flight = 1 + random(6)};
  for (const char* key : {"a", "b", "c"}) {
    policy.groups[key] = {.max_concurrency = 1 + random(4), .max_in_flight = 1 + random(4)};
    if (random(2) == 0) policy.groups[key].queue_threshold = random(10);
  }
  policy.rejection_handler = [&](std::string_view, std::string_view id) {
    if (random(2) == 0) return RejectionPolicy::kDiscard;
    run_by_caller.emplace(id);
    return RejectionPolicy::kCallerRuns;
  };
  const GroupPolicy rules = policy;
  GroupExecutor executor(std::move(policy), sim);
  std::vector<TaskHandle<void>> handles;
  std::map<std::string, int> running;
  int all_running = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string key(1, static_cast<char>('a' + random(3)));
    switch (random(12)) {
      case 0:
        if (!handles.empty())
          handles[static_cast<std::size_t>(random(static_cast<int>(handles.size())))].cancel();
        break;
      case 1:
        executor.evict_group(key);
        break;
      case 2:
        if (random(8) == 0) executor.shutdown_group(key);
        break;
      case 3:
        sim.advance(std::chrono::milliseconds(random(100)));
        break;
      case 4:
        sim.run_one();
        break;
      default: {
        auto task = [&, key, id = std::to_string(i)]() -> Task<void> {
          const bool counts = !run_by_caller.contains(id);
          if (counts) {
            const GroupLimits limits = rules.resolve(key);
            EXPECT_LE(++running[key], std::min(*limits.max_concurrency, *limits.max_in_flight));
            EXPECT_LE(++all_running, rules.global_max_in_flight);
          }
          try {
            co_await sleep_for(std::chrono::milliseconds(random(50)));
          } catch (const CancelledError&) {
          }
          if (counts) --running[key], --all_running;
        };
        handles.push_back(executor.submit(key, std::to_string(i), std::move(task)));
      }
    }
  }
  sim.run_until_idle();
  for (auto& handle : handles) EXPECT_TRUE(handle.is_done());
  const GroupStats stats = executor.stats();
  EXPECT_EQ(stats.submitted, handles.size());
  EXPECT_EQ(stats.succeeded + stats.failed + stats.cancelled + stats.rejected, handles.size());
  EXPECT_EQ(stats.running + stats.waiting, 0U);
  EXPECT_TRUE(executor.active_group_keys().empty());
}

// Trees of coroutine tasks that wait for their children, in virtual time.
void run_random_trees(std::uint64_t seed) {
  SimScheduler sim(seed);
  const auto random = [&](int bound) {
    return static_cast<int>(sim.random_below(static_cast<std::uint64_t>(bound)));
  };
  const int limit = 1 + random(3);
  const int global_limit = 1 + random(4);
  GroupExecutor executor(
      {.default_group = {.max_concurrency = limit}, .global_max_in_flight = global_limit}, sim);
  std::map<std::string, int> running;
  int all_running = 0;
  const auto enter = [&](const std::string& key) {
    EXPECT_LE(++running[key], limit);
    EXPECT_LE(++all_running, global_limit);
  };
  const auto leave = [&](const std::string& key) { --running[key], --all_running; };
  int ended = 0;
  std::function<Task<void>(std::string, int)> node = [&](std::string key, int depth) -> Task<void> {
    enter(key);
    for (int i = depth > 0 ? random(4) : 0; i > 0; --i) {
      // Down the alphabet or the same: so there are no cycles.
      const std::string next(1, static_cast<char>(key[0] - random(2) * (key[0] > 'a' ? 1 : 0)));
      auto child =
          executor.submit(next, "x", [&node, next, depth] { return node(next, depth - 1); });
      leave(key);
      if (random(3) == 0) co_await sleep_for(0s);
      const GroupResult<void> result = co_await child;
      enter(key);
      EXPECT_TRUE(result.ok());
    }
    ++ended;
    leave(key);
  };
  std::vector<TaskHandle<void>> roots;
  for (int i = 0; i < 8; ++i) {
    const std::string key(1, static_cast<char>('a' + random(3)));
    roots.push_back(executor.submit(key, "root", [&node, key] { return node(key, 4); }));
  }
  sim.run_until_idle();
  for (auto& root : roots) ASSERT_TRUE(root.is_done());
  const GroupStats stats = executor.stats();
  EXPECT_EQ(stats.submitted, static_cast<std::uint64_t>(ended));
  EXPECT_EQ(stats.succeeded, static_cast<std::uint64_t>(ended));
}

// With KEYWAY_SEED=n that seed alone.
void for_seeds(std::uint64_t count, void (*run)(std::uint64_t)) {
  const char* replayed = std::getenv("KEYWAY_SEED");
  const std::uint64_t first = replayed != nullptr ? std::strtoull(replayed, nullptr, 10) : 1;
  const std::uint64_t last = replayed != nullptr ? first : count;
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("KEYWAY_SEED=" + std::to_string(seed));
    run(seed);
  }
}

TEST(GroupExecutorRandom, EveryTaskEndsOnceAndNoLimitIsExceeded) { for_seeds(200, &run_random); }

TEST(GroupExecutorRandom, TreesOfTasksThatWaitForEachOtherEndWithinEveryLimit) {
  for_seeds(100, &run_random_trees);
}

}  // namespace
}  // namespace keyway
