// Threads that hold a lock and block in something else: the wait graph must see what they wait for. A fault here hangs, so
// these tests run in processes of their own.
#include <atomic>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/when_any.h"
#include "runtime/wait_graph.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

template <class T>
void await_wait_of(const TaskHandle<T>& handle) {
  const detail::TaskCore& task = detail::HandleAccess::core(handle);
  while (WaitGraph::instance().waits_for(task).empty()) std::this_thread::yield();
}

// All threads of a pool are blocked, one of them only for a while, when tasks of group "c" lose their room.
void expect_all_end(const std::function<void(GroupExecutor&)>& take_room) {
  expect_ends([&] {
    ThreadPool pool({.threads = 3, .max_threads = 3});
    KeyLocks locks;
    GroupExecutor executor({.default_group = {.max_concurrency = 3}}, pool);
    std::atomic<bool> has_lock{false};
    std::atomic<bool> may_join{false};
    std::atomic<std::uint64_t> operation{0};
    std::thread holder([&] {
      const KeyLocks::Guard guard = locks.lock("k");
      has_lock = true;
      while (!may_join) std::this_thread::yield();
      auto queued = executor.submit("c", [] {});
      operation = detail::Operation::current().id();
      EXPECT_TRUE(queued.join().ok());
    });
    while (!has_lock) std::this_thread::yield();
    TaskHandle<void> locks_k;
    auto holds_room = executor.submit("c", [&] {
      locks_k = executor.submit("w", [&] { const KeyLocks::Guard guard = locks.lock("k"); });
      await_wait_of(locks_k);
      EXPECT_TRUE(locks_k.join().ok());
    });
    await_wait_of(holds_room);
    KeyLocks::Guard guard = locks.lock("other");
    auto blocked = executor.submit("z", [&] { const KeyLocks::Guard other = locks.lock("other"); });
    await_wait_of(blocked);
    may_join = true;
    while (operation == 0 || !WaitGraph::instance().has_waits(operation)) {
      std::this_thread::yield();
    }
    take_room(executor);
    guard.release();
    EXPECT_TRUE(holds_room.join().ok());
    holder.join();
  });
}

TEST(BlockedThreads, ACostlyTaskThatEntersMeanwhileDoesNotKeepOthersOut) {
  TaskHandle<void> costly;
  expect_all_end([&](GroupExecutor& executor) {
    costly = executor.submit("c", {.id = "costly", .cost = 3, .priority = 1}, [] {});
  });
}

TEST(BlockedThreads, ALimitThatGoesDownMeanwhileDoesNotKeepOthersOut) {
  expect_all_end([](GroupExecutor& executor) { EXPECT_TRUE(executor.set_limit("c", 1).ok()); });
}

// A branch of the task in "b" blocks the pool's only thread when the limit of "b" goes down. If the task gave its permit back,
// its return would need that thread.
TEST(BlockedThreads, ATaskThatBlocksTheLastThreadKeepsItsPermit) {
  expect_ends([] {
    ThreadPool pool({.threads = 1, .max_threads = 1});
    GroupExecutor executor({.groups = {{"b", {.max_concurrency = 2}}}}, pool);
    executor.pause_group("paused");
    TaskHandle<void> paused = executor.submit("paused", [] {});
    TaskHandle<void> holds_d;
    TaskHandle<void> holds_b;
    const auto await_one = [&](const char* group) -> Task<void> {
      auto other = executor.submit(group, [] {});
      (void)co_await other;
    };
    std::atomic<std::uint64_t> operation{0};
    const auto blocks = [&]() -> Task<void> {
      operation = detail::Operation::current().id();
      EXPECT_EQ(paused.join_for(1h).status, TaskStatus::kCancelled);
      co_return;
    };
    auto starts = executor.submit("starts", [&] {
      holds_d = executor.submit("d", [&] { return await_one("b"); });
      holds_b = executor.submit(
          "b", [&]() -> Task<void> { (void)co_await when_all(await_one("d"), blocks()); });
    });
    EXPECT_TRUE(starts.join().ok());
    while (operation == 0 || !WaitGraph::instance().has_waits(operation)) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(executor.set_limit("b", 1).ok());
    EXPECT_TRUE(paused.cancel());
    EXPECT_TRUE(holds_b.join().ok());
    EXPECT_TRUE(holds_d.join().ok());
  });
}

// A coroutine that its submitter starts, because its queue is full, needs a lock of the submitter.
void expect_refused_in_caller(
    const std::function<void(GroupExecutor&, std::function<void()>)>& call) {
  expect_ends([&] {
    ThreadPool pool({.threads = 4});
    KeyLocks locks;
    GroupExecutor other({.default_group = {.max_concurrency = 4}}, pool);
    GroupExecutor executor({.default_group = {.max_concurrency = 1, .queue_threshold = 0},
                            .rejection = RejectionPolicy::kCallerRuns},
                           pool);
    std::atomic<bool> may_end{false};
    auto fills = executor.submit("full", [&] {
      while (!may_end) std::this_thread::yield();
    });
    call(other, [&] {
      const KeyLocks::Guard guard = locks.lock("k");
      const auto locks_again = [&]() -> Task<void> {
        try {
          const KeyLocks::Guard again = locks.lock("k");
          ADD_FAILURE() << "the coroutine has the lock of its submitter";
        } catch (const Exception& error) {
          EXPECT_EQ(error.code(), ErrorCode::kWaitCycle) << error.what();
        }
        co_return;
      };
      EXPECT_TRUE(executor.submit("full", locks_again).join().ok());
      const auto joins = [&]() -> Task<void> {
        auto needs = other.submit("x", [&] { const KeyLocks::Guard again = locks.lock("k"); });
        await_wait_of(needs);
        EXPECT_THROW((void)needs.join(), Exception);
        co_return;
      };
      EXPECT_TRUE(executor.submit("full", joins).join().ok());
    });
    may_end = true;
    EXPECT_TRUE(fills.join().ok());
  });
}

TEST(CallerRuns, ACoroutineCannotWaitForALockOfItsSubmitter) {
  expect_refused_in_caller([](GroupExecutor&, const std::function<void()>& call) { call(); });
}

TEST(CallerRuns, ACoroutineCannotWaitForALockOfTheTaskThatSubmitsIt) {
  expect_refused_in_caller([](GroupExecutor& other, const std::function<void()>& call) {
    EXPECT_TRUE(other.submit("y", call).join().ok());
  });
}

// The timeout cannot stop a thread that blocks in the branch.
TEST(LockCycle, IsFoundInABranchThatBlocksAThreadOutsideOfSchedulers) {
  expect_ends([] {
    ThreadPool pool({.threads = 4});
    KeyLocks locks;
    GroupExecutor executor({}, pool);
    const KeyLocks::Guard guard = locks.lock("k");
    TaskHandle<void> needs;
    const auto joins = [&]() -> Task<void> {
      needs = executor.submit("g", [&] { const KeyLocks::Guard again = locks.lock("k"); });
      await_wait_of(needs);
      EXPECT_THROW((void)needs.join(), Exception);
      co_return;
    };
    sync_wait(pool, with_timeout(50ms, joins()));
  });
}

}  // namespace
}  // namespace keyway
