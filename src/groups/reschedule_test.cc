// After an awaitable of another library and reschedule(), a task goes on as the task that it is.
#include <coroutine>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "runtime/current_task.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using testing::SimScheduler;

// Resumes its awaiter on a thread of its own.
struct OnAnotherThread {
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) {
    std::jthread& made = thread;  // the coroutine may end this object before the assignment
    made = std::jthread([coroutine] { coroutine.resume(); });
  }
  int await_resume() const { return 42; }
  std::jthread& thread;
};

TEST(Reschedule, GoesOnOnTheSchedulerOfItsTask) {
  std::jthread thread;
  ThreadPool pool({.threads = 1});
  GroupExecutor executor({}, pool);
  auto task = executor.submit("a", [&]() -> Task<bool> {
    const detail::Operation* before = &detail::Operation::current();
    const int answer = co_await OnAnotherThread{thread};
    co_await reschedule();
    co_return answer == 42 && Scheduler::current() == &pool &&
        &detail::Operation::current() == before;
  });
  EXPECT_TRUE(task.join().value());
}

// The group has one permit: the join must give it back.
TEST(Reschedule, AWaitAfterItGivesPermitsBack) {
  expect_ends([] {
    std::jthread thread;
    GroupExecutor executor({});
    auto task = executor.submit("a", [&]() -> Task<int> {
      (void)co_await OnAnotherThread{thread};
      co_await reschedule();
      co_return executor.submit("a", [] { return 7; }).join().value();
    });
    EXPECT_EQ(task.join().value(), 7);
  });
}

TEST(TaskDeathTest, ATaskIsAwaitedOnce) {
  EXPECT_DEATH(
      {
        SimScheduler sim;
        sync_wait(sim, []() -> Task<void> {
          Task<void> task = []() -> Task<void> { co_return; }();
          co_await std::move(task);
          co_await std::move(task);
        }());
      },
      "awaited or run a second time");
}

}  // namespace
}  // namespace keyway
