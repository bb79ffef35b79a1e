// User code that runs after a coroutine has ended does not run within the coroutine's operation, which is destroyed.
#include <cstddef>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/detail/block_pool.h"
#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "runtime/wait_graph.h"
#include "support/at_end.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(EndedCoroutine, ADestructorOfItsValueMayWaitForItsGroup) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 2}, sim);
    bool joined = false;
    const auto wait = [&] { joined = executor.submit("g", [] {}).join().ok(); };
    EXPECT_TRUE(executor
                    .post("g",
                          [&]() -> Task<AtEnd> {
                            co_await sleep_for(1ms);
                            co_return AtEnd(wait);
                          })
                    .ok());
    sim.run_until_idle();
    EXPECT_TRUE(joined);
    EXPECT_TRUE(executor.submit("g", [] {}).join().ok());
  });
}

TEST(EndedCoroutine, ADestructorOfItsCapturesWaitsAsTheTask) {
  expect_ends([] {
    SimScheduler sim;
    GroupExecutor executor({.global_max_in_flight = 1}, sim);
    bool joined = false;
    auto capture =
        std::make_unique<AtEnd>([&] { joined = executor.submit("g", [] {}).join().ok(); });
    auto task = executor.submit(
        "g", [held = std::move(capture)]() -> Task<void> { co_await sleep_for(1ms); });
    EXPECT_TRUE(task.join().ok());
    EXPECT_TRUE(joined);
  });
}

// Whoever still refers to a block that this thread has freed reads rubbish from now on.
void overwrite_freed_blocks() {
  constexpr std::size_t kStep = 16;
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (std::size_t size = kStep; size <= detail::kMaxBlockBytes; size += kStep) {
    for (int i = 0; i < 8; ++i) blocks.emplace_back(detail::allocate_block(size), size);
  }
  for (const auto& [block, size] : blocks) {
    std::memset(block, 0xa5, size);
    detail::deallocate_block(block, size);
  }
}

// Tells of a task that shared the result of another one.
struct FollowerListener final : TaskLifecycleListener {
  void on_completed(std::string_view, std::string_view id, const TaskOutcome& outcome) override {
    if (id == "shared" && !outcome.ran) ended();
  }
  std::function<void()> ended;
};

TEST(EndedCoroutine, TheListenerOfATaskThatSharesItsResultMayWait) {
  expect_ends([] {
    SimScheduler sim;
    const auto listener = std::make_shared<FollowerListener>();
    GroupExecutor executor({.listener = listener}, sim);
    int joined = 0;
    listener->ended = [&] {
      overwrite_freed_blocks();
      joined += executor.submit("g", "another", [] {}).join().ok() ? 1 : 0;
    };
    const TaskOptions share{.id = "shared", .conflation = Conflation::kShareResult};
    const auto nap = []() -> Task<void> { co_await sleep_for(1ms); };
    (void)executor.submit("g", share, nap);  // its block is freed when it has ended
    auto follower = executor.submit("g", share, nap);
    EXPECT_TRUE(follower.join().ok());
    EXPECT_EQ(joined, 1);
  });
}

// The task "waits" waits for a task that shares a result, and the listener of that one waits for "waits".
TEST(SharedResult, AListenerMayNotWaitForATaskThatWaitsForItsOwn) {
  expect_ends([] {
    const auto listener = std::make_shared<FollowerListener>();
    std::latch may_end(1);
    std::latch is_set(1);
    TaskHandle<void> waits;
    std::optional<ErrorCode> code;
    GroupExecutor executor({.listener = listener});
    listener->ended = [&] {
      is_set.wait();
      const detail::TaskCore& task = detail::HandleAccess::core(waits);
      while (WaitGraph::instance().waits_for(task).empty()) std::this_thread::yield();
      try {
        (void)waits.join();
      } catch (const Exception& exception) {
        code = exception.code();
      }
    };
    const TaskOptions share{.id = "shared", .conflation = Conflation::kShareResult};
    auto leader = executor.submit("g", share, [&] { may_end.wait(); });
    waits = executor.submit("h", "waits", [&] {
      auto follower = executor.submit("g", share, [] {});
      may_end.count_down();
      (void)follower.join();
    });
    is_set.count_down();
    EXPECT_TRUE(executor.drain(1min));
    EXPECT_EQ(code, ErrorCode::kWaitCycle);
  });
}

// A circuit breaker that pauses while the executor is being destroyed.
TEST(Shutdown, ATaskMayPauseWhileTheExecutorIsDestroyed) {
  expect_ends([] {
    std::latch runs(1);
    auto executor = std::make_unique<GroupExecutor>(GroupPolicy{}, ThreadPoolOptions{.threads = 2});
    GroupExecutor& alive = *executor;
    auto breaker = alive.submit("breaker", [&](std::stop_token stop) {
      runs.count_down();
      while (!stop.stop_requested()) std::this_thread::yield();
      alive.pause();
    });
    runs.wait();
    for (int i = 0; i < 1000; ++i) (void)alive.post("g" + std::to_string(i), [] {});
    executor.reset();
    EXPECT_TRUE(breaker.is_done());
  });
}

}  // namespace
}  // namespace keyway
