// Objects that are destroyed in the wrong order, or by code that they call: the program ends with a message.
#include <functional>
#include <memory>
#include <string_view>

#include <gtest/gtest.h>

#include "keyway/executor_scheduler.h"
#include "keyway/group_executor.h"
#include "keyway/task_listener.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"

namespace keyway {
namespace {

using testing::SimScheduler;

TEST(GroupExecutorDeathTest, APoolMustOutliveItsExecutor) {
  const auto destroy_pool_first = [] {
    auto pool = std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = 1});
    GroupExecutor executor({}, *pool);
    pool.reset();
  };
  EXPECT_DEATH(destroy_pool_first(), "declare the pool first");
}

TEST(GroupExecutorDeathTest, AnySchedulerMustOutliveItsExecutor) {
  const auto destroy_first = [](std::unique_ptr<Scheduler> scheduler) {
    GroupExecutor executor({}, *scheduler);
    scheduler.reset();
  };
  EXPECT_DEATH(destroy_first(std::make_unique<SimScheduler>()), "declare the simulation first");
  const auto run = [](const std::function<void()>& f) { f(); };
  EXPECT_DEATH(destroy_first(make_executor_scheduler(run)), "declare the scheduler first");
}

TEST(GroupExecutorDeathTest, AnExecutorMustOutliveItsGroupHandles) {
  const auto destroy_first = [] {
    SimScheduler sim;
    auto executor = std::make_unique<GroupExecutor>(GroupPolicy{}, sim);
    const GroupHandle group = executor->group("g");
    executor.reset();
  };
  EXPECT_DEATH(destroy_first(), "a GroupExecutor is destroyed before a GroupHandle");
}

TEST(GroupExecutorDeathTest, AListenerCannotDestroyItsExecutor) {
  struct Destroys final : TaskLifecycleListener {
    void on_completed(std::string_view, std::string_view, const TaskOutcome&) override {
      executor.reset();
    }
    std::unique_ptr<GroupExecutor> executor;
  };
  EXPECT_DEATH(
      {
        SimScheduler sim;
        const auto listener = std::make_shared<Destroys>();
        listener->executor =
            std::make_unique<GroupExecutor>(GroupPolicy{.listener = listener}, sim);
        (void)listener->executor->submit("a", [] {});
        sim.run_until_idle();
      },
      "nor by a listener");
}

}  // namespace
}  // namespace keyway
