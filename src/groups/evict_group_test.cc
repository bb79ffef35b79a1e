// evict_group(): the next limits are those of its policy, for submits that wait and for those that are just being made.
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

}  // namespace
}  // namespace keyway
