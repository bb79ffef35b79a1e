// A shutdown ends queued tasks and asks running ones to stop. Stop callbacks are user code, and may wait for the queued tasks.
#include <atomic>
#include <functional>
#include <latch>
#include <mutex>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/own_process.h"
#include "support/scale.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

void run_until_stopped(const std::stop_token& stop) {
  while (!stop.stop_requested()) std::this_thread::sleep_for(100us);
}

// A stop callback of the running task calls `callback` with a task that the shutdown ends.
void expect_stop(const std::function<void(GroupExecutor&)>& shutdown,
                 const std::function<void(TaskHandle<void>&)>& callback) {
  expect_ends([&] {
    std::latch began(1);
    std::atomic<bool> called{false};
    GroupExecutor executor({});
    TaskHandle<void> queued;
    auto running = executor.submit("g", [&](std::stop_token stop) {
      const std::stop_callback on_stop(stop, [&] {
        callback(queued);
        called = true;
      });
      began.count_down();
      run_until_stopped(stop);
    });
    began.wait();
    queued = executor.submit("g", [] {});
    auto second = executor.submit("g", [] {});
    shutdown(executor);
    (void)running.join();
    EXPECT_EQ(second.join().status, TaskStatus::kRejected);
    EXPECT_TRUE(called);
  });
}

void shut_down(GroupExecutor& executor) { executor.shutdown(); }
void shut_down_group(GroupExecutor& executor) { executor.shutdown_group("g"); }

TEST(StopRequests, AStopCallbackMayWaitForAQueuedTaskOfTheSameShutdown) {
  const auto joins = [](TaskHandle<void>& queued) { (void)queued.join(); };
  expect_stop(shut_down, joins);
  expect_stop(shut_down_group, joins);
}

TEST(StopRequests, AStopCallbackMayNeedAMutexOfAThreadThatWaitsForAQueuedTask) {
  for (const auto& shutdown : {shut_down, shut_down_group}) {
    std::mutex mutex;
    std::thread waiter;
    expect_stop(
        [&](GroupExecutor& executor) {
          shutdown(executor);
          waiter.join();
        },
        [&](TaskHandle<void>& queued) {
          std::latch has_mutex(1);
          waiter = std::thread([&] {
            const std::lock_guard lock(mutex);
            has_mutex.count_down();
            (void)queued.join();
          });
          has_mutex.wait();
          const std::lock_guard lock(mutex);
        });
  }
}

TEST(StopRequests, AStopCallbackMayWaitForAnotherTaskThatIsToStop) {
  expect_ends([] {
    std::latch began(2);
    GroupExecutor executor({.default_group = {.max_concurrency = 2}});
    TaskHandle<void> other;
    auto first = executor.submit("g", [&](std::stop_token stop) {
      const std::stop_callback on_stop(stop, [&] { (void)other.join(); });
      began.count_down();
      run_until_stopped(stop);
    });
    other = executor.submit("g", [&](std::stop_token stop) {
      began.count_down();
      run_until_stopped(stop);
    });
    began.wait();
    executor.shutdown();
    EXPECT_TRUE(first.join().ok());
  });
}

TEST(StopRequests, ARejectionHandlerThatOutlastsTheShutdownStartsNothing) {
  expect_ends([] {
    std::latch asked(1);
    std::atomic<bool> stopped{false};
    std::atomic<bool> ran{false};
    GroupPolicy policy{.default_group = {.max_concurrency = 1, .queue_threshold = 0}};
    policy.rejection_handler = [&](std::string_view, std::string_view) {
      asked.count_down();
      while (!stopped) std::this_thread::yield();
      return RejectionPolicy::kCallerRuns;
    };
    GroupExecutor executor(std::move(policy));
    std::latch began(1);
    auto running = executor.submit("g", [&](std::stop_token stop) {
      began.count_down();
      run_until_stopped(stop);
      stopped = true;
    });
    began.wait();
    std::thread submitter(
        [&] { EXPECT_THROW((void)executor.submit("g", [&] { ran = true; }), Exception); });
    asked.wait();
    EXPECT_FALSE(executor.shutdown(1ms));
    submitter.join();
    EXPECT_FALSE(ran);
  });
}

TEST(StopRequests, OfOneGroupCostTheSameHoweverManyTasksOfOthersRun) {
  const auto seconds = [](int count) {
    testing::SimScheduler sim;
    GroupExecutor executor({}, sim);
    const auto run = []() -> Task<void> { co_await sleep_for(1h); };
    const auto key = [](int i) { return "g-" + std::to_string(i); };
    for (int i = 0; i < count; ++i) EXPECT_TRUE(executor.post(key(i), run).ok());
    sim.run_ready();
    const double began = cpu_seconds();
    for (int i = 0; i < count; ++i) executor.shutdown_group(key(i));
    const double took = cpu_seconds() - began;
    sim.run_ready();
    EXPECT_EQ(executor.stats().running, 0U);
    return took;
  };
  expect_cost_stays(seconds, 200, 10'000);
}

}  // namespace
}  // namespace keyway
