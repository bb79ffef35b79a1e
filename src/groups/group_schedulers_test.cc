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

// Its execute() calls the executor back before it queues the work, which the test runs on its own thread. A lock that
// the executor holds while it posts would be taken twice by one thread.
class CallsBack {
 public:
  void execute(std::function<void()> work) {
    if (executor != nullptr && !calling_back_) {
      calling_back_ = true;
      call_back();
      calling_back_ = false;
      ++calls_back;
    }
    work_.push_back(std::move(work));
  }
  void run_all() {
    while (!work_.empty()) {
      const std::function<void()> work = std::exchange(work_.front(), nullptr);
      work_.pop_front();
      work();
    }
  }

  GroupExecutor* executor = nullptr;
  int calls_back = 0;

 private:
  void call_back() {
    (void)executor->stats();
    for (const char* key : {"a", "b", "other"}) {
      (void)executor->group_stats(key);
      (void)executor->explain(key);
    }
    (void)executor->active_group_keys();
    (void)executor->waiting_for_room();
    EXPECT_TRUE(executor->set_limit("other", 2).ok());
    EXPECT_TRUE(executor->set_limit("a", 1 + calls_back % 2).ok());
    EXPECT_TRUE(executor->set_global_limit(1 + calls_back % 3).ok());
    executor->pause_group("other");
    executor->resume_group("other");
    executor->resume();
    auto cancelled = executor->submit("other", "cancelled", answer);
    (void)cancelled.cancel();
    EXPECT_TRUE(executor->post("b", "from execute()", answer).ok());
    executor->shutdown_group("other");
    executor->evict_group("other");
  }

  std::deque<std::function<void()>> work_;
  bool calling_back_ = false;
};

TEST(GroupExecutor, CallsExecuteWithoutAnyLock) {
  CallsBack foreign;
  GroupExecutor executor({.groups = {{"full", {.max_concurrency = 1, .queue_threshold = 0}}},
                          .global_max_in_flight = 2,
                          .oldest_first = true},
                         foreign, ExecutorOptions{.threads = 1});
  foreign.executor = &executor;
  const auto waits = [&]() -> Task<int> {
    auto same = executor.submit("a", "same group", answer);
    auto other = executor.submit("b", "other group", answer);
    co_return (co_await same).value() + (co_await other).value();
  };
  const auto submits = [&]() -> Task<int> {
    auto first = co_await executor.submit_async("full", {.id = "1"}, answer);
    auto second = co_await executor.submit_async("full", {.id = "2"}, answer);
    co_return (co_await *first).value() + (co_await *second).value();
  };
  std::vector<TaskHandle<int>> handles;
  for (int round = 0; round < 20; ++round) {
    handles.push_back(executor.submit("a", waits));
    handles.push_back(executor.submit("b", {.cost = 2, .priority = 1}, answer));
    handles.push_back(executor.submit("c", submits));
    executor.pause();
    foreign.run_all();
    executor.resume();
    executor.pause_group("a");
    foreign.run_all();
    executor.resume_group("a");
    EXPECT_TRUE(executor.set_global_limit(1).ok());
    EXPECT_TRUE(executor.set_global_limit(3).ok());
    foreign.run_all();
  }
  for (auto& handle : handles) {
    ASSERT_TRUE(handle.is_done());
    EXPECT_TRUE(handle.join().ok());
  }
  EXPECT_GT(foreign.calls_back, 100);
  foreign.executor = nullptr;
}

}  // namespace
}  // namespace keyway
