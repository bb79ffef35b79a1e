// Tasks on the last threads of a pool, under a global limit: a wait gives the global permit back, and needs a permit again
// to go on.
#include <coroutine>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/rest.h"
#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "keyway/when_any.h"
#include "support/coroutines.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

Task<void> sleeps() { co_await sleep_for(20ms); }

// Two tasks wait on the two threads of a pool; two others of their executor are queued meanwhile. A coroutine may hold the permit that a
// return needs, so a wait on the last thread is refused.
void expect_all_end(const std::function<void(ThreadPool&, GroupExecutor&)>& wait) {
  expect_ends([&] {
    ThreadPool pool({.threads = 2, .max_threads = 2});
    GroupExecutor other({}, ThreadPoolOptions{.threads = 2});
    GroupExecutor executor({.global_max_in_flight = 1}, pool);
    std::vector<TaskHandle<void>> tasks;
    for (const char* group : {"a", "b"}) {
      tasks.push_back(executor.submit(group, [&] {
        try {
          wait(pool, other);
        } catch (const Exception& error) {
          EXPECT_EQ(error.code(), ErrorCode::kNoThread) << error.what();
        }
      }));
    }
    for (const char* group : {"c", "d"}) tasks.push_back(executor.submit(group, [] {}));
    for (TaskHandle<void>& task : tasks) EXPECT_TRUE(task.join().ok());
  });
}

// The other thread of the pool is blocked by something that the library does not know.
void expect_return(const std::function<void(GroupExecutor& other)>& wait) {
  expect_ends([&] {
    std::latch began(1);
    std::latch is_blocked(1);
    std::latch returned(1);
    ThreadPool pool({.threads = 2, .max_threads = 2});  // its last item still uses the latches
    GroupExecutor other({}, ThreadPoolOptions{.threads = 1});
    GroupExecutor executor({.global_max_in_flight = 1}, pool);
    auto waits = executor.submit("a", [&] {
      began.count_down();
      is_blocked.wait();
      wait(other);
      returned.count_down();
    });
    began.wait();
    auto queued =
        executor.submit("b", [] {});  // its lane stands at the gate when the thread is blocked
    pool.execute([&] {
      is_blocked.count_down();
      returned.wait();
    });
    EXPECT_TRUE(waits.join().ok());
    EXPECT_TRUE(queued.join().ok());
  });
}

TEST(LastThread, ATaskReturnsThoughTheLaneWithItsPermitHasNoThread) {
  expect_return([](GroupExecutor& other) { EXPECT_TRUE(other.submit("x", sleeps).join().ok()); });
}

void destroy_an_executor_with_work() {
  GroupExecutor own({}, ThreadPoolOptions{.threads = 1});
  (void)own.submit("x", sleeps);
}

TEST(LastThread, ATaskThatDestroyedAnExecutorReturns) {
  expect_return([](GroupExecutor&) { destroy_an_executor_with_work(); });
}

TEST(LastThread, ExecuteAllDoesNotHang) {
  expect_all_end([](ThreadPool&, GroupExecutor& other) {
    std::vector<GroupTask<void>> tasks;
    tasks.emplace_back("x", sleeps);
    (void)other.execute_all(std::move(tasks));
  });
}

TEST(LastThread, ARestInSyncWaitDoesNotHang) {
  expect_all_end([](ThreadPool& pool, GroupExecutor&) { sync_wait(pool, rest_for(20ms)); });
}

TEST(LastThread, ARestOfABranchInSyncWaitDoesNotHang) {
  expect_all_end([](ThreadPool& pool, GroupExecutor&) {
    sync_wait(pool, []() -> Task<void> { (void)co_await when_all(rest_for(20ms), sleeps()); }());
  });
}

// Groups of the same name in two executors are two lanes.
TEST(WaitCycle, IsNotSeenBetweenGroupsOfTheSameNameInTwoExecutors) {
  SimScheduler sim;
  GroupExecutor first({}, sim);
  GroupExecutor second({}, sim);
  auto before = second.submit("a", "before", sleeps);
  auto target = second.submit("a", "target", [] {});
  auto waits = first.submit("a", "waits", [&]() -> Task<void> { (void)co_await target; });
  auto waits_for_it = first.submit("b", [&]() -> Task<void> { (void)co_await waits; });
  EXPECT_TRUE(waits_for_it.join().ok());
}

// A branch of a task runs while another branch awaits, in sync_wait(), a task of the same group.
TEST(InlineRun, CountsAsOneBranchOfItsTask) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    std::coroutine_handle<> parked;
    bool other_ran = false;
    auto task = executor.submit("g", [&]() -> Task<void> {
      auto other = executor.submit("g", [&] { other_ran = true; });
      const auto in_sync_wait = [&]() -> Task<void> {
        co_await reschedule();  // `runs` has begun
        sync_wait(sim, await_one(other));
      };
      const auto runs = [&]() -> Task<void> { co_await Park{parked}; };
      co_await when_all(in_sync_wait(), runs());
    });
    sim.run_until_idle();
    EXPECT_FALSE(other_ran);
    parked.resume();
    EXPECT_TRUE(task.join().ok());
    EXPECT_TRUE(other_ran);
  });
}

// The other branch of when_any() cannot stop a coroutine that sync_wait() runs.
TEST(WaitCycle, IsFoundInASyncWaitOfABranch) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({}, sim);
    bool refused = false;
    TaskHandle<void> first;
    TaskHandle<void> second;
    first = executor.submit("a", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      const auto in_sync_wait = [&]() -> Task<void> {
        try {
          sync_wait(sim, [&]() -> Task<void> { (void)co_await second; }());
        } catch (const Exception& error) {
          refused = error.code() == ErrorCode::kWaitCycle;
        }
        co_return;
      };
      (void)co_await when_any(in_sync_wait(), sleeps());
    });
    second = executor.submit("b", [&]() -> Task<void> { (void)co_await first; });
    EXPECT_TRUE(second.join().ok());
    EXPECT_TRUE(refused);
  });
}

}  // namespace
}  // namespace keyway
