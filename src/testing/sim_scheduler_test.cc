#include "keyway/testing/sim_scheduler.h"

#include <algorithm>
#include <coroutine>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/task.h"
#include "runtime/thread_wakeup.h"
#include "support/jobs.h"

namespace keyway::testing {
namespace {

using namespace std::chrono_literals;

struct Alarm final : Timer {
  Alarm() = default;
  explicit Alarm(std::function<void()> then) : on_fire(std::move(then)) {}
  void fire() override { on_fire(); }
  std::function<void()> on_fire;
};

// The order in which ten items run that are posted at once.
std::vector<int> order_of_ten(SimScheduler& sim) {
  std::vector<int> order;
  std::vector<std::unique_ptr<Job>> jobs;
  for (int i = 0; i < 10; ++i) {
    jobs.push_back(std::make_unique<Job>([&order, i] { order.push_back(i); }));
    sim.post(*jobs.back());
  }
  EXPECT_EQ(sim.ready_count(), 10U);
  EXPECT_EQ(sim.run_until_idle(), 10U);
  return order;
}

std::vector<int> zero_to_nine() {
  std::vector<int> numbers(10);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(SimScheduler, WithoutASeedItemsRunInTheOrderOfPosting) {
  SimScheduler sim;
  EXPECT_EQ(order_of_ten(sim), zero_to_nine());
}

TEST(SimScheduler, TheSameSeedGivesTheSameOrder) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimScheduler first(seed);
    SimScheduler second(seed);
    for (int round = 0; round < 3; ++round) ASSERT_EQ(order_of_ten(first), order_of_ten(second));
    ASSERT_EQ(first.random_below(1000), second.random_below(1000));
  }
}

TEST(SimScheduler, DifferentSeedsGiveDifferentOrdersOfTheSameItems) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimScheduler sim(seed);
    std::vector<int> order = order_of_ten(sim);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order, zero_to_nine());
  }
  EXPECT_GT(orders.size(), 90U);
}

TEST(SimScheduler, EveryOrderOfAFewItemsComesUp) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SimScheduler sim(seed);
    std::string order;
    Job a([&] { order += 'a'; });
    Job b([&] { order += 'b'; });
    Job c([&] { order += 'c'; });
    for (Job* job : {&a, &b, &c}) sim.post(*job);
    sim.run_until_idle();
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 6U);
}

TEST(SimScheduler, DoesNothingUntilItIsAskedTo) {
  SimScheduler sim;
  int ran = 0;
  Job job([&] { ++ran; });
  sim.post(job);
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(sim.is_driven());
  EXPECT_TRUE(sim.run_one());
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(sim.run_one());
}

TEST(SimScheduler, AnItemMayPostOthersAndItself) {
  SimScheduler sim(1);
  int rounds = 0;
  Job again;
  again.work = [&] {
    if (++rounds < 100) sim.post(again);
  };
  sim.post(again);
  EXPECT_EQ(sim.run_until_idle(), 100U);
}

TEST(SimScheduler, AnItemThatAsksForItRunsAgain) {
  SimScheduler sim(1);
  Repeater repeater(100);
  sim.post(repeater);
  EXPECT_EQ(sim.run_until_idle(), 100U);
}

// ---- time

TEST(SimScheduler, TimeMovesToTheNextTimerAndOnlyWhenNothingIsReady) {
  SimScheduler sim;
  const TimePoint start = sim.now();
  std::vector<std::string> seen;
  const auto note = [&](const char* what) {
    seen.push_back(what + std::to_string((sim.now() - start) / 1min));
  };
  Alarm late([&] { note("late at "); });
  Alarm early([&] { note("early at "); });
  Job job([&] { note("job at "); });
  sim.add_timer(late, start + 60min);
  sim.add_timer(early, start + 10min);
  sim.post(job);
  sim.run_until_idle();
  EXPECT_EQ(seen, (std::vector<std::string>{"job at 0", "early at 10", "late at 60"}));
  EXPECT_EQ(sim.now(), start + 60min);
}

TEST(SimScheduler, RunReadyLetsNoTimePass) {
  SimScheduler sim;
  const TimePoint start = sim.now();
  Alarm never([] { ADD_FAILURE() << "time has passed"; });
  Job job([] {});
  sim.add_timer(never, start + 1ns);
  sim.post(job);
  EXPECT_EQ(sim.run_ready(), 1U);
  EXPECT_EQ(sim.now(), start);
  EXPECT_TRUE(sim.cancel_timer(never));
  EXPECT_FALSE(sim.cancel_timer(never));
}

TEST(SimScheduler, AdvanceFiresWhatIsDueAndRunsWhatThatMakesReady) {
  SimScheduler sim;
  const TimePoint start = sim.now();
  int ran = 0;
  Job job([&] {
    ++ran;
    EXPECT_EQ(sim.now(), start + 5s);
  });
  Alarm posts([&] { sim.post(job); });
  Alarm later([] { ADD_FAILURE() << "not due yet"; });
  sim.add_timer(posts, start + 5s);
  sim.add_timer(later, start + 11s);
  sim.advance(10s);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(sim.now(), start + 10s) << "not only to the last timer";
  EXPECT_TRUE(sim.cancel_timer(later));
}

TEST(SimScheduler, TimeNeverGoesBack) {
  SimScheduler sim;
  const auto nap = []() -> Task<> { co_await sleep_for(10s); };
  TimePoint after_nap{};
  Job job([&] {
    sync_wait(sim, nap());
    after_nap = sim.now();
  });
  const TimePoint began = sim.now();
  sim.post(job);
  sim.advance(1s);
  EXPECT_EQ(sim.now() - began, 1s) << "an item that waits does not move the time";
  EXPECT_EQ(after_nap, TimePoint());
  sim.run_until_idle();
  EXPECT_EQ(after_nap - began, 10s);
  sim.advance(0s);
  EXPECT_EQ(sim.now(), after_nap);
}

TEST(SimScheduler, TimersOfOneInstantAreStepsOfTheirOwn) {
  SimScheduler sim;
  int fired = 0;
  Alarm first([&] { ++fired; });
  Alarm second([&] { ++fired; });
  for (Alarm* alarm : {&first, &second}) sim.add_timer(*alarm, sim.now() + 1s);
  EXPECT_TRUE(sim.run_one());
  EXPECT_EQ(fired, 1) << "one item or one timer at a time";
  sim.run_until_idle();
  EXPECT_EQ(fired, 2);
}

// ---- what overlaps

TEST(SimScheduler, TwoCoroutinesOverlap) {
  SimScheduler sim;
  const TimePoint start = sim.now();
  int inside = 0;
  int most = 0;
  const auto visit = [&]() -> Task<> {
    most = std::max(most, ++inside);
    co_await sleep_for(10min);
    --inside;
  };
  static_cast<void>(sync_wait(sim, when_all(visit(), visit())));
  EXPECT_EQ(most, 2);
  EXPECT_EQ(sim.now() - start, 10min);
}

TEST(SimScheduler, ItemsNeverOverlapUnlessOneWaitsInside) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimScheduler sim(seed);
    int inside = 0;
    std::vector<std::unique_ptr<Job>> jobs;
    for (int i = 0; i < 20; ++i) {
      jobs.push_back(std::make_unique<Job>([&] {
        EXPECT_EQ(++inside, 1);
        --inside;
      }));
      sim.post(*jobs.back());
    }
    sim.run_until_idle();
  }
}

TEST(SimScheduler, AWaitInsideAnItemMakesStepsUntilItIsSatisfied) {
  SimScheduler sim;
  std::vector<std::string> order;
  const auto nap = []() -> Task<> { co_await sleep_for(1s); };
  Job waiting([&] {
    order.emplace_back("begins to wait");
    sync_wait(sim, nap());
    order.emplace_back("goes on");
  });
  Job other([&] { order.emplace_back("other"); });
  sim.post(waiting);
  sim.post(other);
  sim.run_until_idle();
  EXPECT_EQ(order, (std::vector<std::string>{"begins to wait", "other", "goes on"}));
}

TEST(SimScheduler, AnItemThatWaitsIsNotBuriedBelowOthers) {
  SimScheduler sim;
  ThreadWakeup first_may_go_on;
  ThreadWakeup second_may_go_on;
  std::vector<std::string> order;
  Job first([&] {
    EXPECT_EQ(block(first_may_go_on), WaitEnd::kDone);
    order.emplace_back("first");
    second_may_go_on.wake();
  });
  // Begins while the first one waits, and needs it to go on.
  Job second([&] {
    first_may_go_on.wake();
    EXPECT_EQ(block(second_may_go_on), WaitEnd::kDone);
    order.emplace_back("second");
  });
  sim.post(first);
  sim.post(second);
  sim.run_until_idle();
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second"}));
}

TEST(SimScheduler, AnItemMayWaitInsideACatchBlock) {
  SimScheduler sim;
  std::vector<std::string> caught;
  const auto throws_and_waits = [&](const char* what) {
    try {
      throw std::runtime_error(what);
    } catch (const std::runtime_error&) {
      ThreadWakeup never;
      const TimePoint deadline = sim.now() + 1s;
      EXPECT_EQ(block(never, {.deadline = &deadline}), WaitEnd::kTimedOut);
      try {
        throw;
      } catch (const std::runtime_error& error) {
        caught.emplace_back(error.what());
      }
    }
  };
  Job first([&] { throws_and_waits("first"); });
  Job second([&] { throws_and_waits("second"); });
  sim.post(first);
  sim.post(second);
  sim.run_until_idle();
  EXPECT_EQ(caught, (std::vector<std::string>{"first", "second"}));
}

TEST(SimScheduler, AWaitForWhatCanNeverComeIsSaidToBeStuck) {
  SimScheduler sim;
  ThreadWakeup never;
  EXPECT_EQ(block(never, {.scheduler = &sim}), WaitEnd::kStuck);
}

TEST(SimSchedulerDeathTest, SyncWaitOnASimulationThatHasEndedSaysSo) {
  SimScheduler sim;
  struct Never {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    void await_resume() const noexcept {}
  };
  const auto waits = []() -> Task<> { co_await Never{}; };
  EXPECT_DEATH(sync_wait(sim, waits()), "nothing more to run");
}

TEST(SimScheduler, TheSameSeedInterleavesCoroutinesTheSameWay) {
  const auto trace_of = [](std::uint64_t seed) {
    SimScheduler sim(seed);
    std::string trace;
    const auto walker = [&](char name) -> Task<> {
      for (int i = 0; i < 5; ++i) {
        co_await sleep_for(1s);
        trace += name;
      }
    };
    static_cast<void>(sync_wait(sim, when_all(walker('a'), walker('b'), walker('c'))));
    return trace;
  };
  std::set<std::string> traces;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    ASSERT_EQ(trace_of(seed), trace_of(seed));
    traces.insert(trace_of(seed));
  }
  EXPECT_GT(traces.size(), 10U);
}

}  // namespace
}  // namespace keyway::testing
