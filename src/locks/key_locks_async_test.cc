// Coroutines and locks.
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "keyway/when_any.h"
#include "support/foreign_coroutine.h"
#include "support/jobs.h"
#include "support/memory.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(KeyLocksAsync, HoldNoThreadWhileTheyWait) {
  SimScheduler sim;  // which has none
  KeyLocks locks;
  GroupExecutor executor({.default_group = {.max_concurrency = 100}}, sim);
  std::vector<int> order;
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 5; ++i) {
    handles.push_back(executor.submit("g", std::to_string(i), [&, i]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("a");
      order.push_back(i);
      co_await sleep_for(1ms);
      order.push_back(i);
    }));
  }
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
  EXPECT_EQ(order, (std::vector{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocksAsync, WithLockHoldsTheLockUntilTheCoroutineHasEnded) {
  SimScheduler sim;
  KeyLocks locks;
  const auto work = [&]() -> Task<int> {
    EXPECT_EQ(locks.active_lock_count(), 1U);
    co_await sleep_for(1ms);
    EXPECT_EQ(locks.active_lock_count(), 1U);
    co_return 7;
  };
  EXPECT_EQ(sync_wait(sim, locks.with_lock("a", work)), 7);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

// g++ 12 destroys the temporaries of a co_await expression twice: this is what its message says to write.
TEST(KeyLocksAsync, WithLockTakesAMoveOnlyCoroutineByReference) {
  SimScheduler sim;
  KeyLocks locks;
  const auto call = [&]() -> Task<int> {
    auto work = [value = std::make_unique<int>(7)]() -> Task<int> {
      co_await sleep_for(1ms);
      co_return *value;
    };
    co_return co_await locks.with_lock("a", std::ref(work));
  };
  EXPECT_EQ(sync_wait(sim, call()), 7);
}

TEST(KeyLocksAsync, AreReleasedIfTheCoroutineThrows) {
  SimScheduler sim;
  KeyLocks locks;
  const auto work = []() -> Task<void> {
    co_await sleep_for(1ms);
    throw std::runtime_error("disk full");
  };
  EXPECT_THROW(sync_wait(sim, locks.with_lock("a", work)), std::runtime_error);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocksAsync, AreReleasedIfTheTaskIsCancelledWhileItHoldsThem) {
  SimScheduler sim;
  std::vector<std::string> lines;
  KeyLocks locks({.debug_log = [&](std::string_view line) { lines.emplace_back(line); }});
  GroupExecutor executor({}, sim);
  const auto work = []() -> Task<void> { co_await sleep_for(1h); };
  auto handle = executor.submit("g", "1", [&] { return locks.with_lock("a", work); });
  sim.run_ready();
  EXPECT_EQ(locks.active_lock_count(), 1U);
  EXPECT_TRUE(handle.cancel());
  EXPECT_EQ(handle.join().status, TaskStatus::kCancelled);
  EXPECT_EQ(locks.active_lock_count(), 0U);
  EXPECT_EQ(lines.at(3), "Releasing lock for key: a (signal: cancel)");
}

TEST(KeyLocksAsync, AreNotWaitedForByATaskThatIsCancelled) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({.default_group = {.max_concurrency = 9}}, sim);
  KeyLocks::Guard guard = locks.lock("a");
  bool next_got_it = false;
  auto handle = executor.submit("g", "1", [&]() -> Task<void> {
    const KeyLocks::Guard mine = co_await locks.lock_async("a");
    ADD_FAILURE() << "it has the lock";
  });
  auto next = executor.submit("g", "2", [&]() -> Task<void> {
    const KeyLocks::Guard mine = co_await locks.lock_async("a");
    next_got_it = true;
  });
  sim.run_ready();
  EXPECT_EQ(locks.explain("a").waiting, 2U);
  EXPECT_TRUE(handle.cancel());
  EXPECT_EQ(locks.explain("a").waiting, 1U);
  EXPECT_EQ(handle.join().status, TaskStatus::kCancelled);
  guard.release();
  EXPECT_TRUE(next.join().ok());
  EXPECT_TRUE(next_got_it);
}

TEST(KeyLocksAsync, AreWaitedForNoLongerThanATimeout) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  KeyLocks::Guard guard = locks.lock("a");
  auto task = executor.submit("g", [&]() -> Task<bool> {
    bool timed_out = false;
    auto late = locks.lock_async("a");
    try {
      const KeyLocks::Guard mine = co_await with_timeout(1ms, late);
    } catch (const TimeoutError& error) {
      timed_out = true;
      EXPECT_STREQ(error.what(), "key \"a\" was not free within 1.0 ms");
    }
    EXPECT_EQ(locks.explain("a").waiting, 0U);
    guard.release();
    auto lock = locks.lock_async("a");
    const KeyLocks::Guard mine = co_await with_timeout(1ms, lock);
    EXPECT_EQ(locks.holders("a").size(), 1U);
    const KeyLocks::Guard again = co_await locks.lock_async("a");  // it belongs to the task
    co_return timed_out;
  });
  sim.run_until_idle();
  EXPECT_TRUE(task.join().value());
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocksAsync, OfSeveralTheFirstToBeHadIsTaken) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  KeyLocks::Guard guard = locks.lock("a");
  auto task = executor.submit("g", [&]() -> Task<std::string> {
    auto a = locks.lock_async("a");
    auto b = locks.lock_async("b");
    const auto first = co_await when_any(a, b);
    EXPECT_EQ(locks.active_lock_count(), 2U);
    EXPECT_EQ(locks.explain("a").waiting, 0U);
    co_return std::string(std::get<1>(first.value).key());
  });
  sim.run_until_idle();
  EXPECT_EQ(task.join().value(), "b");
  guard.release();
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocksAsync, AreRefusedAtOnceToATaskThatWasAskedToStopBefore) {
  SimScheduler sim;
  KeyLocks locks;
  const KeyLocks::Guard guard = locks.lock("a");
  std::stop_source stop;
  stop.request_stop();
  const auto wait = [&]() -> Task<void> {
    const KeyLocks::Guard mine = co_await locks.lock_async("a");
  };
  bool refused = false;
  std::thread([&] {  // another operation than the one that holds it
    try {
      sync_wait(sim, wait(), stop.get_token());
    } catch (const CancelledError& error) {
      refused = std::string(error.what()).find("key \"a\"") != std::string::npos;
    }
  })
      .join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(locks.explain("a").waiting, 0U);
}

TEST(KeyLocksAsync, CanBeLockedAgainByTheSameCoroutineOnAnotherThread) {
  ThreadPool pool({.threads = 4});
  KeyLocks locks;
  GroupExecutor executor({.default_group = {.max_concurrency = 100}}, pool);
  const auto nested = [&]() -> Task<int> {
    const KeyLocks::Guard again = co_await locks.lock_async("a");
    co_return 1;
  };
  int counter = 0;
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 100; ++i) {
    handles.push_back(executor.submit("g", "", [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("a");
      co_await sleep_for(10us);  // goes on on whichever thread
      counter += co_await locks.with_lock("a", nested);
      const KeyLocks::Guard blocking = locks.lock("a");  // by any means
    }));
  }
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
  EXPECT_EQ(counter, 100);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocksAsync, OfACallerAreOpenToWhatItWaitsFor) {
  SimScheduler sim;
  KeyLocks locks;
  const KeyLocks::Guard guard = locks.lock("a");
  const auto nested = [&]() -> Task<bool> {
    const KeyLocks::Guard again = co_await locks.lock_async("a");
    co_return true;
  };
  EXPECT_TRUE(sync_wait(sim, nested()));
}

TEST(KeyLocksAsync, KeepBranchesOfOneTaskApart) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimScheduler sim(seed);
    KeyLocks locks;
    int inside = 0;
    int most_inside = 0;
    const auto branch = [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("a");
      most_inside = std::max(most_inside, ++inside);
      co_await sleep_for(1ms);
      const KeyLocks::Guard again = co_await locks.lock_async("a");
      co_await sleep_for(1ms);
      --inside;
    };
    const auto whole = [&](bool holds) -> Task<int> {
      KeyLocks::Guard guard;
      if (holds) guard = co_await locks.lock_async("a");
      co_await when_all(branch(), branch(), branch());
      const KeyLocks::Guard after = locks.lock("a");  // as itself again, not as one of its branches
      co_return 1;
    };
    EXPECT_EQ(sync_wait(sim, whole(/*holds=*/seed % 2 == 0)), 1);
    EXPECT_EQ(most_inside, 1) << "seed " << seed;
    EXPECT_EQ(locks.active_lock_count(), 0U);
  }
}

TEST(KeyLocksAsync, LockAllWaitsForAllOfThem) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimScheduler sim(seed);
    KeyLocks locks;
    GroupExecutor executor({.default_group = {.max_concurrency = 9}}, sim);
    int inside = 0;
    const auto work = [&](std::vector<std::string> keys) -> Task<void> {
      const LockSet set = co_await locks.lock_all_async(std::move(keys));
      EXPECT_EQ(++inside, 1);
      co_await sleep_for(1ms);
      --inside;
    };
    auto one = executor.submit("g", "1", [&] { return work({"a", "b", "a"}); });
    auto two = executor.submit("g", "2", [&] { return work({"b", "a"}); });
    auto three = executor.submit("g", "3", [&] { return work({"b"}); });
    EXPECT_TRUE(one.join().ok());
    EXPECT_TRUE(two.join().ok());
    EXPECT_TRUE(three.join().ok());
  }
}

TEST(KeyLocksAsync, NameTheTaskThatHoldsThem) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  auto handle = executor.submit("g", "1", [&]() -> Task<void> {
    const KeyLocks::Guard guard = co_await locks.lock_async("a");
    co_await sleep_for(1s);
  });
  sim.run_ready();
  EXPECT_EQ(locks.explain("a").text(), "key \"a\": held by task \"1\" of group \"g\"");
  EXPECT_TRUE(handle.join().ok());
  auto plain = executor.submit("g", "2", [&] {
    const KeyLocks::Guard guard = locks.lock("a");
    return locks.explain("a").text();
  });
  EXPECT_EQ(plain.join().value(), "key \"a\": held by task \"2\" of group \"g\"");
}

// Until all guards are released: foreign coroutines go on on threads of their own.
void wait_until_free(const KeyLocks& locks) {
  while (locks.active_lock_count() > 0) std::this_thread::yield();
}

TEST(KeyLocksAsync, AreTakenByCoroutinesOfAnyKind) {
  KeyLocks locks;
  KeyLocks::Guard guard = locks.lock("a");
  int got = 0;
  const auto wait = [](KeyLocks& all, int& count) -> ForeignCoroutine {
    const KeyLocks::Guard mine = co_await all.lock_async("a");
    ++count;
  };
  wait(locks, got);
  wait(locks, got);
  EXPECT_EQ(locks.explain("a").waiting, 2U);
  guard.release();
  wait_until_free(locks);
  EXPECT_EQ(got, 2);
}

// Each lets the next one go on when it releases; the stack must not grow with the line.
TEST(KeyLocksAsync, ALongLineOfForeignCoroutinesTakesNoStack) {
  KeyLocks locks;
  KeyLocks::Guard guard = locks.lock("a");
  int got = 0;
  const auto wait = [](KeyLocks& all, int& count) -> ForeignCoroutine {
    const KeyLocks::Guard mine = co_await all.lock_async("a");
    ++count;
  };
  constexpr int kLine = kSanitized ? 2'000 : 50'000;
  for (int i = 0; i < kLine; ++i) wait(locks, got);
  guard.release();
  wait_until_free(locks);
  EXPECT_EQ(got, kLine);
}

TEST(KeyLocksAsync, ABlockingLockEndsWithAStopRequest) {
  KeyLocks locks;
  const KeyLocks::Guard guard = locks.lock("a");
  std::stop_source stop;
  std::thread waiter(
      [&] { EXPECT_THROW(static_cast<void>(locks.lock("a", stop.get_token())), CancelledError); });
  while (locks.explain("a").waiting == 0) std::this_thread::yield();
  stop.request_stop();
  waiter.join();
  EXPECT_EQ(locks.explain("a").waiting, 0U);
}

TEST(KeyLocksAsync, AndBlockingOnesShareOneLine) {
  ThreadPool pool({.threads = 2});
  KeyLocks locks;
  GroupExecutor executor({.default_group = {.max_concurrency = 16}}, pool);
  constexpr int kTasks = kSanitized ? 400 : 4'000;
  int counter = 0;  // not atomic: the lock orders them
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < kTasks; ++i) {
    if (i % 2 == 0) {
      handles.push_back(executor.submit("g", "", [&]() -> Task<void> {
        const KeyLocks::Guard guard = co_await locks.lock_async("a");
        ++counter;
      }));
    } else {
      handles.push_back(executor.submit("h", "", [&] {
        const KeyLocks::Guard guard = locks.lock("a");
        ++counter;
      }));
    }
  }
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
  EXPECT_EQ(counter, kTasks);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocksAsync, ComeThroughCancellationsOnOtherThreads) {
  ThreadPool pool({.threads = 3});
  KeyLocks locks;
  GroupExecutor executor({.default_group = {.max_concurrency = 1000}}, pool);
  constexpr int kTasks = kSanitized ? 1'000 : 10'000;
  int inside = 0;
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < kTasks; ++i) {
    handles.push_back(executor.submit("g", "", [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("a");
      EXPECT_EQ(++inside, 1);
      --inside;
    }));
    if (i % 2 == 0) handles[handles.size() / 2].cancel();
  }
  for (auto& handle : handles) {
    const TaskStatus status = handle.join().status;
    EXPECT_TRUE(status == TaskStatus::kSuccess || status == TaskStatus::kCancelled);
  }
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocksAsyncDeathTest, AnAwaiterIsAwaitedOnce) {
  const auto await_twice = [] {
    SimScheduler sim;
    KeyLocks locks;
    sync_wait(sim, [](KeyLocks& of) -> Task<void> {
      auto lock = of.lock_async("k");
      const KeyLocks::Guard guard = co_await lock;
      const KeyLocks::Guard again = co_await lock;
    }(locks));
  };
  EXPECT_DEATH(await_twice(), "awaited a second time; call lock_async");
}

}  // namespace
}  // namespace keyway
