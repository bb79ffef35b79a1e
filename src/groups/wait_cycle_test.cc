// Tasks that wait for each other: one of the waits is refused, and nothing hangs.
#include <atomic>
#include <cstdlib>
#include <latch>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/coroutines.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

// Whether a call is refused because it could never end.
template <class Call>
bool is_refused_as_cycle(Call call) {
  try {
    call();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), ErrorCode::kWaitCycle) << exception.what();
    return true;
  }
  return false;
}

TEST(WaitCycle, ATaskCannotWaitForItself) {
  GroupExecutor executor({});
  std::latch go(1);
  TaskHandle<bool> self;
  self = executor.submit("a", "1", [&] {
    go.wait();
    return is_refused_as_cycle([&] { (void)self.join(); });
  });
  go.count_down();
  // The handle is the task's until it is done.
  EXPECT_TRUE(executor.shutdown(1h));
  EXPECT_TRUE(self.join().value());
}

// A timeout without an end is no timeout.
TEST(WaitCycle, ATaskCannotWaitForItselfForAnUnlimitedTime) {
  expect_ends([] {
    GroupExecutor executor({});
    std::latch go(1);
    TaskHandle<bool> self;
    self = executor.submit("a", "1", [&] {
      go.wait();
      return is_refused_as_cycle([&] { (void)self.join_for(Duration::max()); }) &&
             is_refused_as_cycle([&] { (void)self.await_for(Duration::max()); });
    });
    go.count_down();
    EXPECT_TRUE(executor.shutdown(1h));
    EXPECT_TRUE(self.join().value());
  });
}

// One serial group per name. The first task of each waits for the second one of the next, which
// stands behind the first. Gives how many of these waits were refused.
int cycle_of(const std::vector<GroupExecutor*>& executors, const std::vector<std::string>& groups,
             std::stop_token stop = {}) {
  const std::size_t count = groups.size();
  std::latch all_run(static_cast<std::ptrdiff_t>(count));
  std::latch go(1);
  std::atomic<int> refused = 0;
  std::vector<TaskHandle<void>> first;
  std::vector<TaskHandle<int>> second;
  for (std::size_t i = 0; i < count; ++i) {
    first.push_back(executors[i]->submit(groups[i], "first", [&, i] {
      all_run.count_down();
      go.wait();
      refused += is_refused_as_cycle([&] { (void)second[(i + 1) % count].join(stop); }) ? 1 : 0;
    }));
  }
  all_run.wait();
  for (std::size_t i = 0; i < count; ++i) {
    second.push_back(executors[i]->submit(groups[i], "second", answer));
  }
  go.count_down();
  for (auto& handle : first) EXPECT_TRUE(handle.join().ok());
  for (GroupExecutor* executor : executors) EXPECT_TRUE(executor->shutdown(1h));
  return refused;
}

TEST(WaitCycle, HasOneOfItsWaitsRefusedAndTheRestEnd) {
  for (const int global_limit : {kUnlimited, 2}) {
    GroupExecutor executor({.global_max_in_flight = global_limit});
    EXPECT_EQ(cycle_of({&executor, &executor}, {"a", "b"}), 1);
  }
  GroupExecutor executor({});
  EXPECT_EQ(cycle_of({&executor, &executor, &executor}, {"a", "b", "c"}), 1);
}

TEST(WaitCycle, IsNamedInTheError) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  TaskHandle<int> a2;
  TaskHandle<int> b2;
  auto a1 = executor.submit("a", "1", [&]() -> Task<void> { (void)co_await b2; });
  auto b1 = executor.submit("b", "1", [&]() -> Task<void> { (void)co_await a2; });
  a2 = executor.submit("a", "2", answer);
  b2 = executor.submit("b", "2", answer);
  EXPECT_TRUE(a1.join().ok());
  try {
    b1.join().value();
    FAIL() << "was not refused";
  } catch (const Exception& exception) {
    EXPECT_STREQ(exception.what(),
                 "waiting for task \"2\" of group \"a\" would never end: "
                 "task \"1\" of group \"b\" waits for task \"2\" of group \"a\", "
                 "which needs a permit that task \"1\" of group \"a\" holds; "
                 "task \"1\" of group \"a\" waits for task \"2\" of group \"b\", "
                 "which needs a permit that task \"1\" of group \"b\" holds; "
                 "take the result after this task, or use other keys");
  }
}

TEST(WaitCycle, IsFoundAlsoThroughTwoExecutors) {
  GroupExecutor one({});
  GroupExecutor other({});
  EXPECT_EQ(cycle_of({&one, &other}, {"a", "a"}), 1);
}

TEST(WaitCycle, OfCoroutinesHasOneOfItsWaitsRefusedAndTheRestEnd) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimScheduler sim(seed);
    GroupExecutor executor({.global_max_in_flight = 1 + static_cast<int>(seed % 2)}, sim);
    int refused = 0;
    TaskHandle<int> a2;
    TaskHandle<int> b2;
    auto wait_for = [&](TaskHandle<int>& handle) -> Task<void> {
      co_await sleep_for(1s);
      try {
        (void)co_await handle;
      } catch (const Exception& exception) {
        EXPECT_EQ(exception.code(), ErrorCode::kWaitCycle);
        ++refused;
      }
    };
    auto a1 = executor.submit("a", "1", [&] { return wait_for(b2); });
    auto b1 = executor.submit("b", "1", [&] { return wait_for(a2); });
    a2 = executor.submit("a", "2", answer);
    b2 = executor.submit("b", "2", answer);
    EXPECT_TRUE(a1.join().ok());
    EXPECT_TRUE(b1.join().ok());
    EXPECT_EQ(refused, 1);
  }
}

TEST(WaitCycle, IsFoundAlsoIfATaskOfItWaitsForAnotherOneToo) {
  expect_ends([] {
    SimScheduler sim;
    TaskHandle<void> a2;
    TaskHandle<void> b2;
    GroupExecutor executor({}, sim);
    auto harmless = executor.submit("c", "1", []() -> Task<void> { co_await sleep_for(1s); });
    auto a1 = executor.submit("a", "1", [&]() -> Task<void> {
      co_await sleep_for(100ms);
      co_await when_all(await_one(harmless), await_one(b2));
    });
    auto b1 = executor.submit("b", "1", [&] { return await_one(a2); });
    a2 = executor.submit("a", "2", [] {});
    b2 = executor.submit("b", "2", [] {});
    EXPECT_TRUE(is_refused_as_cycle([&] { a1.join().value(); }));
    EXPECT_TRUE(b1.join().ok());
  });
}

TEST(WaitCycle, IsRefusedToOneBranchAtOnceThoughAnotherWaits) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    bool refused = false;
    TaskHandle<void> self;
    auto behind = executor.submit("other", "1", [&]() -> Task<void> {
      while (!refused) co_await sleep_for(1ms);
    });
    TaskHandle<void> same_group;
    const auto wait_for_itself = [&]() -> Task<void> {
      try {
        (void)co_await self;
      } catch (const Exception& exception) {
        refused = exception.code() == ErrorCode::kWaitCycle;
      }
    };
    self = executor.submit("a", "1", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      co_await when_all(await_one(same_group), wait_for_itself());
    });
    same_group = executor.submit("a", "2", [&] { return await_one(behind); });
    EXPECT_TRUE(executor.shutdown(1h));
    EXPECT_TRUE(refused);
  });
}

TEST(WaitCycle, IsNotClosedByAWaitWithATimeout) {
  GroupExecutor executor({.global_max_in_flight = 1});
  TaskHandle<void> a;
  TaskHandle<void> b;
  std::latch submitted(1);
  a = executor.submit("a", "1", [&] {
    submitted.wait();
    EXPECT_FALSE(is_refused_as_cycle([&] { (void)b.join_for(20ms); }));
  });
  b = executor.submit("b", "1",
                      [&] { EXPECT_FALSE(is_refused_as_cycle([&] { (void)a.join_for(1h); })); });
  submitted.count_down();
  EXPECT_TRUE(executor.shutdown(1h));
}

// A stop token ends a wait only if somebody uses it; a task that hands on its own will do so.
TEST(WaitCycle, IsFoundAlsoIfTheWaitsCouldBeStopped) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_ends([] {
    const std::stop_source never_used;
    GroupExecutor executor({});
    EXPECT_EQ(cycle_of({&executor, &executor}, {"a", "b"}, never_used.get_token()), 1);
  });
}

// "outer" waits for a task of b that waits for a task of a. That one has room beside "outer", until the
// limit of a goes down.
TEST(WaitCycle, ALimitThatGoesDownDuringAWaitDoesNotCloseACycle) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"a", {.max_concurrency = 2}}}}, sim);
  auto long_one = executor.submit("a", "long", []() -> Task<void> { co_await sleep_for(1s); });
  auto outer = executor.submit("a", "outer", [&]() -> Task<int> {
    auto middle = executor.submit("b", "middle", [&]() -> Task<int> {
      auto inner = executor.submit("a", "inner", answer);
      co_return (co_await inner).value();
    });
    co_return (co_await middle).value();
  });
  sim.run_ready();
  EXPECT_FALSE(outer.is_done());
  EXPECT_TRUE(executor.set_limit("a", 1).ok());
  sim.run_until_idle();
  ASSERT_TRUE(outer.is_done());
  EXPECT_EQ(outer.join().value(), answer());
}

// What can close a cycle after its waits were accepted: "holder" of group g keeps one of its two permits while it waits,
// by way of group h, for "target", which stands in g's queue behind a task with the other permit.
struct HalfOfACycle {
  SimScheduler sim;
  GroupExecutor executor;
  TaskHandle<int> target;
  TaskHandle<int> between;
  TaskHandle<int> holder;
  TaskHandle<void> long_one;

  explicit HalfOfACycle(GroupLimits limits, int limit_now = 2)
      : executor({.groups = {{"g", limits}}}, sim) {
    EXPECT_TRUE(executor.set_limit("g", limit_now).ok());
    between = executor.submit("h", "between", [this]() -> Task<int> {
      co_await sleep_for(10ms);
      co_return (co_await target).value();
    });
    holder = executor.submit("g", "holder",
                             [this]() -> Task<int> { co_return (co_await between).value(); });
    long_one = executor.submit("g", "long", []() -> Task<void> { co_await sleep_for(20ms); });
    sim.run_ready();
    target = executor.submit("g", "target", answer);
    sim.advance(11ms);
    EXPECT_FALSE(target.is_done());
  }

  void expect_all_end() {
    sim.run_until_idle();
    ASSERT_TRUE(holder.is_done());
    EXPECT_EQ(holder.join().value(), answer());
    EXPECT_TRUE(target.is_done());
  }
};

TEST(WaitCycle, ACostlierTaskThatOvertakesDoesNotCloseACycle) {
  HalfOfACycle half({});
  auto costly = half.executor.submit("g", {.id = "costly", .cost = 2, .priority = 1}, answer);
  half.expect_all_end();
  EXPECT_TRUE(costly.is_done());
}

TEST(WaitCycle, ACostlierTaskThatWaitedForRoomDoesNotCloseACycle) {
  HalfOfACycle half({.queue_threshold = 2});
  auto in_the_way = half.executor.submit("g", "in the way", answer);
  auto submitter = half.executor.submit("f", "submitter", [&]() -> Task<int> {
    auto costly = co_await half.executor.submit_async(
        "g", {.id = "costly", .cost = 2, .priority = 1}, answer);
    co_return (co_await *costly).value();
  });
  half.sim.run_ready();
  EXPECT_EQ(half.executor.waiting_for_room(), 1U);
  EXPECT_TRUE(in_the_way.cancel());
  EXPECT_EQ(half.executor.waiting_for_room(), 0U);
  half.expect_all_end();
  EXPECT_TRUE(submitter.is_done());
}

TEST(WaitCycle, ALowerLimitAfterAnEvictionDoesNotCloseACycle) {
  HalfOfACycle half({.max_concurrency = 1}, /*limit_now=*/2);
  half.executor.evict_group("g");
  auto newcomer = half.executor.submit("g", "newcomer", answer);
  half.expect_all_end();
  EXPECT_TRUE(newcomer.is_done());
}

// "costly" gave both permits back for its own part. "holder" has one of them when "costly" comes back in front of
// "target".
TEST(WaitCycle, ACostlierTaskThatComesBackDoesNotCloseACycle) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"g", {.max_concurrency = 2}}}}, sim);
  TaskHandle<int> target;
  auto costly = executor.submit("g", {.id = "costly", .cost = 2}, [&]() -> Task<int> {
    auto part = executor.submit("g", "part", []() -> Task<int> {
      co_await sleep_for(20ms);
      co_return 1;
    });
    co_return (co_await part).value();
  });
  auto between = executor.submit("h", "between", [&]() -> Task<int> {
    co_await sleep_for(10ms);
    co_return (co_await target).value();
  });
  sim.run_ready();
  auto holder =
      executor.submit("g", "holder", [&]() -> Task<int> { co_return (co_await between).value(); });
  sim.run_ready();
  target = executor.submit("g", "target", answer);
  sim.run_until_idle();
  ASSERT_TRUE(holder.is_done());
  EXPECT_EQ(holder.join().value(), answer());
  ASSERT_TRUE(costly.is_done());
  EXPECT_EQ(costly.join().value(), 1);
}

// "costly" and "cheap" come back while "holder" and "runner" have both permits. "holder" waits by way of "between" for
// "cheap", so "cheap" must not need the permits of "holder", in whichever order the two come back.
void expect_costly_and_cheap_return(bool cheap_first) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"g", {.max_concurrency = 2}}}}, sim);
  TaskHandle<int> of_costly;
  TaskHandle<int> of_cheap;
  const auto waits_for_part_in = [&](TaskHandle<int>& part) {
    return [&]() -> Task<void> {
      part = executor.submit("g", {.priority = -1}, answer);  // queued until it is cancelled
      EXPECT_EQ((co_await part).status, TaskStatus::kCancelled);
    };
  };
  auto costly = executor.submit("g", {.id = "costly", .cost = 2}, waits_for_part_in(of_costly));
  auto cheap = executor.submit("g", "cheap", waits_for_part_in(of_cheap));
  auto between = executor.submit("h", "between", [&]() -> Task<void> {
    co_await sleep_for(1ms);
    (void)co_await cheap;
  });
  auto holder = executor.submit("g", "holder", [&] { return await_one(between); });
  auto runner = executor.submit("g", "runner", []() -> Task<void> { co_await sleep_for(20ms); });
  sim.advance(5ms);
  sim.run_ready();
  (cheap_first ? of_cheap : of_costly).cancel();
  sim.run_ready();
  (cheap_first ? of_costly : of_cheap).cancel();
  sim.run_until_idle();
  ASSERT_TRUE(holder.is_done());
  EXPECT_TRUE(holder.join().ok());
  ASSERT_TRUE(costly.is_done());
  EXPECT_TRUE(costly.join().ok());
}

TEST(WaitCycle, ACostlierTaskThatComesBackAfterACheaperOneDoesNotCloseACycle) {
  expect_costly_and_cheap_return(/*cheap_first=*/true);
}

TEST(WaitCycle, ACostlierTaskThatComesBackBeforeACheaperOneDoesNotCloseACycle) {
  expect_costly_and_cheap_return(/*cheap_first=*/false);
}

// The same with a task in the queue that costs as much as "costly": it concerns tasks that have not begun only.
TEST(WaitCycle, ACostlierTaskThatComesBackBesideACostlyQueuedOneDoesNotCloseACycle) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"g", {.max_concurrency = 3}}}}, sim);
  const auto waits_for_part = [&](Duration time) {
    return [&executor, time]() -> Task<void> {
      auto part =
          executor.submit("g", [time]() -> Task<void> { co_await sleep_for(Duration(time)); });
      (void)co_await part;
    };
  };
  auto costly = executor.submit("g", {.id = "costly", .cost = 3}, waits_for_part(10ms));
  auto cheap = executor.submit("g", "cheap", waits_for_part(11ms));
  sim.run_ready();
  auto between = executor.submit("h", "between", [&]() -> Task<void> {
    co_await sleep_for(1ms);
    (void)co_await cheap;
  });
  auto queued = executor.submit("g", {.id = "queued", .cost = 3, .priority = -2}, [] {});
  auto holder = executor.submit("g", "holder", [&] { return await_one(between); });
  sim.run_until_idle();
  ASSERT_TRUE(holder.is_done());
  EXPECT_TRUE(holder.join().ok());
  EXPECT_TRUE(costly.is_done());
  EXPECT_TRUE(queued.is_done());
}

// "first" gave its permit back for "second", and when that is done cannot have it again: "third" holds
// it, and waits by way of b for "first".
TEST(WaitCycle, ATaskThatMustComeBackToItsGroupIsPartOfACycle) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  TaskHandle<void> first;
  TaskHandle<int> second;
  bool refused = false;
  first = executor.submit("a", "first", [&]() -> Task<void> { (void)co_await second; });
  second = executor.submit("a", "second", answer);
  auto third = executor.submit("a", "third", [&]() -> Task<void> {
    auto between = executor.submit("b", "between", [&]() -> Task<void> {
      try {
        (void)co_await first;
      } catch (const Exception& exception) {
        refused = exception.code() == ErrorCode::kWaitCycle;
      }
    });
    (void)co_await between;
  });
  sim.run_until_idle();
  EXPECT_TRUE(refused);
  EXPECT_TRUE(first.is_done());
  EXPECT_TRUE(third.is_done());
}

}  // namespace
}  // namespace keyway
