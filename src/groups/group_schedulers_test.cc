// Executors on other people's threads.
#include <condition_variable>
#include <deque>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

constexpr auto answer = [] { return 42; };

class SmallPool {
 public:
  explicit SmallPool(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }
  ~SmallPool() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  void execute(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> work = std::exchange(work_.front(), nullptr);
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ending_ = false;
  std::vector<std::jthread> threads_;
};

TEST(GroupExecutor, RunsOnAnExecutorOfTheCallers) {
  SmallPool pool(2);
  GroupExecutor executor({.default_group = {.max_concurrency = 2}}, pool,
                         ExecutorOptions{.threads = 2});
  std::latch both(2);
  auto meet = [&] { both.arrive_and_wait(); };
  auto first = executor.submit("a", "1", meet);
  auto second = executor.submit("a", "2", meet);
  EXPECT_TRUE(first.join().ok());
  EXPECT_TRUE(second.join().ok());
  auto coroutine = executor.submit("a", "3", []() -> Task<void> { co_await sleep_for(1us); });
  EXPECT_TRUE(coroutine.join().ok());
  auto outer =
      executor.submit("b", "1", [&] { return executor.submit("b", "2", answer).join().value(); });
  EXPECT_EQ(outer.join().value(), 42);
  EXPECT_EQ(executor.thread_stats().threads, 0U);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(executor.post("c", answer).ok());
}

// A handle to a pool, as that of Asio: copied freely, with a const execute().
class PoolHandle {
 public:
  explicit PoolHandle(SmallPool& pool) : pool_(&pool) {}
  template <class F>
  void execute(F&& work) const {
    pool_->execute(std::forward<F>(work));
  }

 private:
  SmallPool* pool_;
};

TEST(GroupExecutor, KeepsACopyOfAnExecutorThatIsAHandle) {
  SmallPool pool(2);
  GroupExecutor temporary({}, PoolHandle(pool), {.threads = 2});
  EXPECT_EQ(temporary.submit("a", answer).join().value(), 42);
  std::optional<PoolHandle> handle(pool);
  GroupExecutor copied({}, *handle);
  handle.reset();
  EXPECT_EQ(copied.submit("a", answer).join().value(), 42);
}

TEST(GroupExecutor, AnExecutorIsWhatHasExecuteAndIsNotAScheduler) {
  static_assert(Executor<SmallPool&>);
  static_assert(!Executor<SmallPool>, "a temporary that cannot be kept");
  static_assert(Executor<PoolHandle>);
  static_assert(Executor<const PoolHandle&>);
  static_assert(!Executor<const SmallPool&>);
  static_assert(!Executor<ThreadPool&>, "it is used as the Scheduler that it is");
  static_assert(!Executor<int>);
}

TEST(GroupExecutor, SharesAThreadPoolWithAnother) {
  ThreadPool pool;
  GroupExecutor one({}, pool);
  {
    GroupExecutor other({}, pool);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(one.submit("a", "1", answer).join().value(), 42);
      EXPECT_EQ(other.submit("a", "1", answer).join().value(), 42);
    }
    EXPECT_EQ(other.stats().succeeded, 100U);
  }
  EXPECT_EQ(one.submit("a", "1", answer).join().value(), 42);
  EXPECT_EQ(one.thread_stats().threads, 0U);
  EXPECT_GT(GroupExecutor({}).thread_stats().threads, 0U);
}

}  // namespace
}  // namespace keyway
