// A thread that waits runs nothing else on its stack, and a wait that would leave no thread for what it waits for is
// refused.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <queue>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

constexpr auto kHang = 20s;

template <class Call>
std::optional<ErrorCode> code_of(Call call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.code();
  }
  return std::nullopt;
}

// Yields until the task waits for another one, or is done.
template <class T>
void await_its_wait(GroupExecutor& executor, TaskHandle<T>& task) {
  while (!task.is_done() && executor.explain(task).held_back_by != HeldBackBy::kOtherTask) {
    std::this_thread::yield();
  }
}

// Both threads of the pool are taken, one of them by the waiter, so "y" could only run on the waiter's stack: where it
// would wait for the mutex that the waiter holds.
TEST(BlockedThreads, AWaitOnAFixedPoolRunsNoOtherWorkOnItsStack) {
  std::mutex held;
  std::latch both_run(2);
  std::latch x_may_end(1);
  std::latch y_is_ready(1);
  std::atomic<bool> y_began = false;
  GroupExecutor executor({}, ThreadPoolOptions{.threads = 2, .max_threads = 2});
  auto x = executor.submit("x", [&] {
    both_run.count_down();
    x_may_end.wait();
  });
  auto waiter = executor.submit("waiter", [&] {
    const std::lock_guard lock(held);
    both_run.count_down();
    y_is_ready.wait();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(x.join_for(100us).status, TaskStatus::kTimedOut);
    EXPECT_FALSE(y_began);
    x_may_end.count_down();
    return x.join_for(kHang).ok();
  });
  both_run.wait();
  auto y = executor.submit("y", [&] {
    y_began = true;
    const std::lock_guard lock(held);
  });
  y_is_ready.count_down();
  EXPECT_TRUE(waiter.join().value());
  EXPECT_TRUE(y.join_for(kHang).ok());
}

TEST(BlockedThreads, ATimeoutAndAStopEndAWaitWhileOtherWorkIsReady) {
  std::latch may_end(1);
  std::latch busy(1);
  std::atomic<int> long_ones = 0;
  std::atomic<bool> second_wait = false;
  std::stop_source stop;
  GroupExecutor executor({.default_group = {.max_concurrency = 8}},
                         ThreadPoolOptions{.threads = 2, .max_threads = 2});
  auto x = executor.submit("x", [&] {
    busy.count_down();
    may_end.wait();
  });
  busy.wait();
  auto waiter = executor.submit("waiter", [&] {
    // Ready while it waits; none may run on this thread.
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(executor.post("long", [&] {
        ++long_ones;
        may_end.wait();
      }));
    }
    EXPECT_EQ(x.join_for(1ms).status, TaskStatus::kTimedOut);
    second_wait = true;
    EXPECT_EQ(x.join(stop.get_token()).status, TaskStatus::kCancelled);
    return long_ones.load();
  });
  while (!second_wait) std::this_thread::yield();
  await_its_wait(executor, waiter);
  EXPECT_FALSE(waiter.is_done());
  stop.request_stop();
  EXPECT_EQ(waiter.join_for(kHang).value(), 0);
  may_end.count_down();
}

TEST(BlockedThreads, AWaitThatWouldUseTheLastThreadIsRefusedByName) {
  GroupExecutor executor({}, ThreadPoolOptions{.threads = 1, .max_threads = 1});
  auto outer = executor.submit("a", "outer", [&] {
    auto inner = executor.submit("b", "inner", [] {});
    try {
      static_cast<void>(inner.join());
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNoThread);
      return std::string(error.what());
    }
    return std::string();
  });
  const std::string message = outer.join().value();
  EXPECT_NE(message.find("task \"inner\" of group \"b\""), std::string::npos) << message;
  EXPECT_NE(message.find("no thread would be left"), std::string::npos) << message;
}

// REQUIRES: the executor has one thread, so that the inner task cannot begin.
std::string refused_wait_in(GroupExecutor& executor) {
  auto outer = executor.submit("a", [&]() -> std::string {
    auto inner = executor.submit("b", [] {});
    try {
      static_cast<void>(inner.join());
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNoThread);
      return error.what();
    }
    return "not refused";
  });
  return outer.join().value();
}

// REQUIRES: the executor has one thread. Returns the message of the exception that `wait` throws within a task.
std::string refusal_in_task(GroupExecutor& executor, const std::function<void()>& wait) {
  auto outer = executor.submit("a", [&]() -> std::string {
    try {
      wait();
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNoThread);
      return error.what();
    }
    return "not refused";
  });
  return outer.join().value();
}

// No coroutine can await these.
TEST(BlockedThreads, TheErrorOfADrainSaysToWaitOnAnotherThread) {
  ThreadPool pool({.threads = 1, .max_threads = 1});
  GroupExecutor executor({}, pool);
  GroupExecutor other({}, pool);
  const std::string advice =
      "would wait; wait on a thread outside of this scheduler, or raise "
      "ThreadPoolOptions::max_threads";
  std::string message = refusal_in_task(executor, [&] {
    static_cast<void>(executor.submit("b", [] {}));
    executor.drain_group("b");
  });
  EXPECT_NE(message.find(advice), std::string::npos) << message;
  message = refusal_in_task(executor, [&] {
    static_cast<void>(other.submit("b", [] {}));
    other.drain();
  });
  EXPECT_NE(message.find(advice), std::string::npos) << message;
}

TEST(BlockedThreads, TheErrorOfExecuteAllSaysToAwaitTheHandles) {
  GroupExecutor executor({}, ThreadPoolOptions{.threads = 1, .max_threads = 1});
  const std::string message = refusal_in_task(executor, [&] {
    std::vector<GroupTask<void>> tasks;
    tasks.emplace_back("b", [] {});
    static_cast<void>(executor.execute_all(std::move(tasks)));
  });
  EXPECT_NE(message.find("would wait; submit the tasks one by one and co_await their handles, or "
                         "raise ThreadPoolOptions::max_threads"),
            std::string::npos)
      << message;
}

TEST(BlockedThreads, TheErrorNamesTheOptionThatGivesMoreThreads) {
  GroupExecutor fixed({}, ThreadPoolOptions{.threads = 1, .max_threads = 1});
  EXPECT_NE(
      refused_wait_in(fixed).find("because the only thread would wait; wait by co_await, or raise "
                                  "ThreadPoolOptions::max_threads"),
      std::string::npos)
      << refused_wait_in(fixed);
  ThreadPool users({.threads = 1, .max_threads = 1});
  const auto handle = [&users] {
    struct Handle {
      void execute(std::function<void()> work) const { pool->execute(std::move(work)); }
      ThreadPool* pool;
    };
    return Handle{&users};
  }();
  GroupExecutor unknown({}, handle);
  EXPECT_NE(refused_wait_in(unknown).find(
                "or say in ExecutorOptions::threads how many threads the executor has: without "
                "it, one is assumed"),
            std::string::npos)
      << refused_wait_in(unknown);
  GroupExecutor one({}, handle, {.threads = 1});
  EXPECT_NE(refused_wait_in(one).find(
                "or give the executor more threads, and say so in ExecutorOptions::threads"),
            std::string::npos)
      << refused_wait_in(one);
}

// The threads run no task, so nothing has given their waits a name before the message is written.
TEST(BlockedThreads, TheErrorNamesEachThreadThatWaits) {
  ThreadPool pool({.threads = 2, .max_threads = 2});
  GroupExecutor executor({}, pool);
  std::latch both_run(2);
  std::latch ended(2);
  std::array<pid_t, 2> threads{};
  std::array<std::string, 2> messages;
  for (std::size_t i = 0; i < 2; ++i) {
    pool.execute([&, i] {
      threads[i] = gettid();
      both_run.arrive_and_wait();
      auto handle = executor.submit("g" + std::to_string(i), [] {});
      try {
        EXPECT_TRUE(handle.join().ok());
      } catch (const Exception& error) {
        messages[i] = error.what();
      }
      ended.count_down();
    });
  }
  ended.wait();
  EXPECT_NE(messages[0].empty(), messages[1].empty()) << "the second wait is refused";
  const std::string message = messages[0] + messages[1];
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string waits = "thread " + std::to_string(threads[i]) +
                              " waits for a task of group \"g" + std::to_string(i) + "\"";
    EXPECT_NE(message.find(waits), std::string::npos) << message << "\nnot in it: " << waits;
  }
}

TEST(BlockedThreads, AllButOneThreadOfAFixedPoolMayWait) {
  std::latch all_wait(3);
  std::atomic<int> refused = 0;
  GroupExecutor executor({.default_group = {.max_concurrency = 8}},
                         ThreadPoolOptions{.threads = 3, .max_threads = 3});
  std::vector<TaskHandle<void>> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.push_back(executor.submit("waiter", [&] {
      all_wait.arrive_and_wait();  // from here on no thread is free
      auto inner = executor.submit("inner", [] {});
      const auto code = code_of([&] { static_cast<void>(inner.join()); });
      EXPECT_TRUE(!code || code == ErrorCode::kNoThread) << to_string(*code);
      if (code) ++refused;
    }));
  }
  for (auto& waiter : waiters) EXPECT_TRUE(waiter.join_for(kHang).ok());
  EXPECT_EQ(refused, 1) << "the last waiter";
}

// Both threads wait, but one of the waits has a timeout: its thread will be there for what the other one waits for.
TEST(BlockedThreads, AThreadWhoseWaitHasATimeoutIsNotTheLastOne) {
  std::latch may_end(1);
  GroupExecutor other({});
  GroupExecutor executor({}, ThreadPoolOptions{.threads = 2, .max_threads = 2});
  auto long_one = other.submit("long", [&] { may_end.wait(); });
  auto with_timeout = executor.submit("a", [&] { return long_one.join_for(kHang).ok(); });
  await_its_wait(executor, with_timeout);
  auto without = executor.submit("b", [&] {
    auto inner = executor.submit("c", [] {});
    return code_of([&] { static_cast<void>(inner.join()); });
  });
  await_its_wait(executor, without);
  may_end.count_down();
  EXPECT_EQ(without.join().value(), std::nullopt);
  EXPECT_TRUE(with_timeout.join().value());
}

TEST(BlockedThreads, ADrainOfAnExecutorWithoutTasksNeedsNoThread) {
  ThreadPool pool({.threads = 1, .max_threads = 1});
  GroupExecutor outer({}, pool);
  auto task = outer.submit("g", [&] {
    GroupExecutor inner({}, pool);
    return inner.drain() && inner.shutdown(1h);
  });
  EXPECT_TRUE(task.join_for(kHang).value());
}

TEST(BlockedThreads, ACoroutineMayWaitOnASingleThread) {
  GroupExecutor executor({}, ThreadPoolOptions{.threads = 1, .max_threads = 1});
  const auto nested = [&]() -> Task<int> {
    auto inner = executor.submit("b", [] { return 2; });
    co_return (co_await inner).value();
  };
  EXPECT_EQ(executor.submit("a", nested).join_for(kHang).value(), 2);
}

// As many threads as it is told.
class Threads {
 public:
  explicit Threads(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
  }
  ~Threads() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void execute(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ended_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> work = std::move(work_.front());
      work_.pop();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> work_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

TEST(BlockedThreads, OnAnExecutorOfUnknownSizeAJoinInATaskIsRefused) {
  Threads threads(1);
  GroupExecutor executor({}, threads);
  auto outer = executor.submit("a", [&] {
    auto inner = executor.submit("b", [] {});
    return code_of([&] { static_cast<void>(inner.join()); });
  });
  EXPECT_EQ(outer.join_for(kHang).value(), ErrorCode::kNoThread);
}

TEST(BlockedThreads, OnAnExecutorOfKnownSizeAsManyJoiningTasksAsThreadsDoNotHang) {
  Threads threads(2);
  GroupExecutor executor({.default_group = {.max_concurrency = 8}}, threads,
                         ExecutorOptions{.threads = 2});
  std::atomic<int> ended = 0;
  std::vector<TaskHandle<void>> outer;
  for (int i = 0; i < 50; ++i) {
    outer.push_back(executor.submit("a", [&] {
      auto inner = executor.submit("b", [] {});
      const auto code = code_of([&] { static_cast<void>(inner.join()); });
      EXPECT_TRUE(!code || code == ErrorCode::kNoThread);
      ++ended;
    }));
  }
  for (auto& handle : outer) EXPECT_TRUE(handle.join_for(kHang).ok());
  EXPECT_EQ(ended, 50);
}

TEST(BlockedThreads, ABranchOfWhenAllMayWaitAgainForItsOwnGroupWithoutAGlobalLimit) {
  GroupExecutor executor({.default_group = {.max_concurrency = 1}});
  const auto branch = [&](int times) -> Task<int> {
    int sum = 0;
    for (int i = 0; i < times; ++i) {
      auto inner = executor.submit("g", [] { return 1; });
      sum += (co_await inner).value();
    }
    co_return sum;
  };
  const auto both = [&]() -> Task<int> {
    auto [a, b] = co_await when_all(branch(50), branch(31));
    co_return a + b;
  };
  EXPECT_EQ(executor.submit("g", both).join_for(kHang).value(), 81);
}

}  // namespace
}  // namespace keyway
