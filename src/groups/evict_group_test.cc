// evict_group(): the limits are those of the policy, for submits that wait and for lanes that are just being made.
#include <atomic>
#include <latch>
#include <string_view>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

TEST(EvictGroup, LetsInSubmitsThatWaitForRoom) {
  testing::SimScheduler sim;
  GroupExecutor executor({.default_group = {.max_concurrency = 1}}, sim);
  executor.pause_group("g");
  ASSERT_TRUE(executor.set_limits("g", {.queue_threshold = 0}).ok());
  bool is_in = false;
  auto submitter = executor.submit("other", [&]() -> Task<void> {
    (void)co_await executor.submit_async("g", {}, [] {});
    is_in = true;
  });
  sim.run_ready();
  ASSERT_FALSE(is_in);
  executor.evict_group("g");
  sim.run_ready();
  EXPECT_TRUE(is_in);
}

TEST(EvictGroup, IsToldToALaneThatIsBeingMade) {
  std::atomic<int> configured{4};
  std::atomic<bool> slow{true};
  std::latch has_read(1);
  std::latch evicted(1);
  GroupPolicy policy;
  policy.resolver = [&](std::string_view) -> int {
    const int limit = configured;
    if (slow.exchange(false)) {
      has_read.count_down();
      evicted.wait();
    }
    return limit;
  };
  std::latch open(1);
  const auto work = [&] { open.wait(); };
  GroupExecutor executor(std::move(policy), ThreadPoolOptions{.threads = 4});
  std::thread first([&] { (void)executor.post("g", work); });
  has_read.wait();
  configured = 1;
  executor.evict_group("g");
  evicted.count_down();
  first.join();
  EXPECT_EQ(executor.explain("g").limit, 1U);
  open.count_down();
  executor.drain();
}

// The limit is read before a second eviction, and told to the lane after that one has told it the newer limit.
TEST(EvictGroup, ANewerLimitIsNotOverwrittenByAnEvictionThatReadTheOlderOne) {
  for (const int global_queue : {kUnlimited, 100}) {
    std::atomic<int> configured{4};
    std::atomic<bool> slow{false};
    std::latch has_read(1);
    std::latch may_go_on(1);
    std::latch open(1);
    GroupPolicy policy{.global_max_in_flight = 100, .global_queue_threshold = global_queue};
    policy.resolver = [&](std::string_view) -> int {
      const int limit = configured;
      if (slow.exchange(false)) {
        has_read.count_down();
        may_go_on.wait();
      }
      return limit;
    };
    const auto work = [&] { open.wait(); };
    GroupExecutor executor(std::move(policy), ThreadPoolOptions{.threads = 4});
    ASSERT_TRUE(executor.post("g", work).ok());  // keeps the lane
    slow = true;
    std::thread reads_the_older([&] { executor.evict_group("g"); });
    has_read.wait();
    configured = 1;
    executor.evict_group("g");
    EXPECT_EQ(executor.explain("g").limit, 1U);
    may_go_on.count_down();
    reads_the_older.join();
    EXPECT_EQ(executor.explain("g").limit, 1U) << global_queue;
    open.count_down();
    executor.drain();
  }
}

}  // namespace
}  // namespace keyway
