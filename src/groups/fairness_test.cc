// No group holds up another, however many tasks it has.
#include <algorithm>
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <latch>
#include <map>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/jobs.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// How many of A's 10,000 tasks are still to come when B's two are done.
struct Flood {
  static constexpr int kTasks = 10'000;
  int a_left = kTasks;
  int b_left = 2;
  int a_left_after_b = 0;

  void submit(GroupExecutor& executor) {
    for (int i = 0; i < kTasks; ++i) EXPECT_TRUE(executor.post("A", [&] { --a_left; }).ok());
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(executor
                      .post("B",
                            [&] {
                              if (--b_left == 0) a_left_after_b = a_left;
                            })
                      .ok());
    }
  }
};

GroupPolicy flood_policy(int global_limit) {
  return {.groups = {{"A", {.max_concurrency = kUnlimited}}}, .global_max_in_flight = global_limit};
}

class Fairness : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(UnderGlobalLimit, Fairness, ::testing::Values(1, 8, kUnlimited),
                         [](const auto& instance) {
                           return instance.param == kUnlimited ? "None"
                                                               : std::to_string(instance.param);
                         });

// One worker: with more of them, one that the system stops in the middle of B's turn would let A
// run ahead without any fault of the executor's. The simulation below stands for many workers.
TEST_P(Fairness, TenThousandTasksOfOneGroupDoNotHoldUpTwoOfAnother) {
  std::latch go(1);
  Flood flood;
  GroupExecutor executor(flood_policy(GetParam()), {.threads = 1, .max_threads = 1});
  EXPECT_TRUE(executor.post("A", [&] { go.wait(); }).ok());
  flood.submit(executor);
  go.count_down();
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_GT(flood.a_left_after_b, 9'900);
  EXPECT_EQ(flood.a_left, 0);
}

TEST_P(Fairness, TheOrderInWhichWorkersComeDoesNotMatter) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimScheduler sim(seed);
    Flood flood;
    GroupExecutor executor(flood_policy(GetParam()), sim);
    // All permits are taken when the rest comes.
    for (int i = 0; i < std::min(GetParam(), 8); ++i) {
      EXPECT_TRUE(executor.post("A", []() -> Task<void> { co_await sleep_for(1s); }).ok());
    }
    sim.run_ready();
    flood.submit(executor);
    sim.run_until_idle();
    // A random order is not fair itself: B's turn may be passed over a few times.
    EXPECT_GT(flood.a_left_after_b, 9'000);
    EXPECT_EQ(flood.a_left, 0);
  }
}

// Coroutines that hold their permits, but no worker, until the test resumes them.
class Parking {
 public:
  auto park() {
    struct Awaiter {
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> coroutine) { parking->add(coroutine); }
      void await_resume() const {}
      Parking* parking;
    };
    return Awaiter{this};
  }
  int begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  // False if none is parked.
  bool resume_one() {
    std::coroutine_handle<> first;
    {
      const std::lock_guard lock(mutex_);
      if (parked_.empty()) return false;
      first = parked_.front();
      parked_.pop_front();
    }
    first.resume();
    return true;
  }

 private:
  void add(std::coroutine_handle<> coroutine) {
    const std::lock_guard lock(mutex_);
    ++begun_;
    parked_.push_back(coroutine);
  }

  std::mutex mutex_;
  int begun_ = 0;
  std::deque<std::coroutine_handle<>> parked_;
};

// A holds all eight permits, and eight workers are idle. Each task of A that ends lets one task begin, and the test waits
// for it: so the executor chooses between A and B, not the system's scheduler.
TEST(FairnessOfThreads, TwoTasksOfAGroupComeBeforeTenThousandOfAnotherThatHoldsAllPermits) {
  constexpr int kPermits = 8;
  Parking parking;
  std::atomic<int> b_left = 2;
  GroupExecutor executor(flood_policy(kPermits), {.threads = 8, .max_threads = 8});
  for (int i = 0; i < Flood::kTasks; ++i) {
    const auto task = [&parking]() -> Task<void> { co_await parking.park(); };
    ASSERT_TRUE(executor.post("A", task).ok());
  }
  ASSERT_TRUE(eventually([&] { return parking.begun() == kPermits; }));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(executor.post("B", [&] { --b_left; }).ok());
  }
  // No worker is on its way with a turn: B stands at the gate.
  const auto all_asleep = [&] {
    const ThreadPoolStats stats = executor.thread_stats();
    return stats.parked == stats.threads;
  };
  ASSERT_TRUE(eventually(all_asleep));
  int ended = 0;
  while (b_left > 0 && ended < 1000) {
    ASSERT_TRUE(parking.resume_one());
    ++ended;
    // A task of B ends at once, and then one of A takes its place.
    ASSERT_TRUE(eventually([&] { return parking.begun() == kPermits + ended; }));
    ASSERT_TRUE(eventually(all_asleep));
  }
  EXPECT_LE(ended, 2 * kPermits);
  while (ended < Flood::kTasks) {
    ASSERT_TRUE(eventually([&] { return parking.resume_one(); }));
    ++ended;
  }
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_EQ(parking.begun(), Flood::kTasks);
}

TEST(FairnessOfThreads, ManyGroupsTakeTurns) {
  std::latch go(1);
  std::map<std::string, int> left{{"a", 100}, {"b", 100}, {"c", 100}};
  GroupExecutor executor({}, {.threads = 1, .max_threads = 1});
  EXPECT_TRUE(executor.post("first", [&] { go.wait(); }).ok());
  for (const auto& [group, tasks] : left) {
    for (int i = 0; i < tasks; ++i) {
      EXPECT_TRUE(executor
                      .post(group,
                            [&] {
                              // Who is done first finds the others more than half done.
                              if (--left[group] > 0) return;
                              for (const auto& other : left) EXPECT_LT(other.second, 50);
                            })
                      .ok());
    }
  }
  go.count_down();
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_EQ(left["a"] + left["b"] + left["c"], 0);
}

}  // namespace
}  // namespace keyway
