// A waiter in a lock's line gets the lock before those behind it, and may then need a permit or a thread to go on. A
// wait behind it that would keep these for ever is refused.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "locks/lock_table.h"
#include "runtime/wait_graph.h"
#include "support/jobs.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr ThreadPoolOptions kOneThread{.threads = 1, .max_threads = 1};

// The code with which a wait for the lock is refused; nullopt if the lock was taken.
std::optional<ErrorCode> refusal(KeyLocks& locks, std::string_view key) {
  try {
    const KeyLocks::Guard guard = locks.lock(key);
  } catch (const Exception& exception) {
    return exception.code();
  }
  return std::nullopt;
}

Task<std::optional<ErrorCode>> refusal_async(KeyLocks& locks, std::string_view key) {
  try {
    const KeyLocks::Guard guard = co_await locks.lock_async(key);
  } catch (const Exception& exception) {
    co_return exception.code();
  }
  co_return std::nullopt;
}

// ---- a waiter in front that holds nothing

// The waits of a thread that holds nothing are not in the graph. A task behind it in line depends on the holder all the
// same, and the holder waits for that task.
TEST(LockLine, AWaitBehindAThreadThatHoldsNothingSeesTheHolder) {
  expect_ends([] {
    for (const LockMode of_thread : {LockMode::kExclusive, LockMode::kShared}) {
      KeyLocks locks;
      GroupExecutor executor({}, {.threads = 2});
      std::latch is_held(1);
      std::latch is_known(1);
      std::optional<ErrorCode> code;
      TaskHandle<void> holder;
      const auto behind = [&] {
        is_known.wait();
        const detail::TaskCore& task = detail::HandleAccess::core(holder);
        while (WaitGraph::instance().waits_for(task).empty()) std::this_thread::yield();
        code = refusal(locks, "k");
      };
      holder = executor.submit("a", "holder", [&] {
        const KeyLocks::Guard guard = locks.lock("k");
        is_held.count_down();
        while (locks.explain("k").waiting == 0) std::this_thread::yield();
        (void)executor.submit("b", "behind", behind).join();
      });
      is_known.count_down();
      is_held.wait();
      std::thread waits([&] { (void)locks.lock("k", of_thread); });
      EXPECT_TRUE(holder.join().ok());
      waits.join();
      EXPECT_EQ(code, ErrorCode::kWaitCycle);
    }
  });
}

// A user's scheduler that looks at the locks when it is asked for the time.
class CountsLocks final : public Scheduler {
 public:
  CountsLocks(ThreadPool& pool, const KeyLocks& locks) : pool_(pool), locks_(locks) {}
  void post(Runnable& runnable) override { pool_.post(runnable); }
  void post_from_outside(Runnable& runnable) override { pool_.post_from_outside(runnable); }
  TimePoint now() const override {
    (void)locks_.active_lock_count();
    return pool_.now();
  }
  void add_timer(Timer& timer, TimePoint deadline) override { pool_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return pool_.cancel_timer(timer); }
  bool wait_for_turns_in_progress(const TimePoint* deadline) override {
    return pool_.wait_for_turns_in_progress(deadline);
  }

 private:
  ThreadPool& pool_;
  const KeyLocks& locks_;
};

TEST(LockLines, AnExplanationAsksNoSchedulerForTheTimeUnderALock) {
  expect_ends([] {
    KeyLocks locks;
    ThreadPool pool;
    CountsLocks scheduler(pool, locks);
    GroupExecutor executor({}, scheduler);
    KeyLocks::Guard held = locks.lock("k");
    auto task = executor.submit("g", [&] { (void)locks.lock("k"); });
    while (locks.explain("k").waiting < 1) std::this_thread::yield();
    EXPECT_GE(locks.explain("k").first_waits, Duration::zero());
    held.release();
    EXPECT_TRUE(task.join().ok());
  });
}

// Runs each item on a thread of its own, and waits for it: what a release lets go on has run when the release itself goes on.
class RunsAtOnce final : public Scheduler {
 public:
  void post(Runnable& runnable) override {
    std::thread([&] { run_posted(runnable); }).join();
  }
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void add_timer(Timer&, TimePoint) override {}
  bool cancel_timer(Timer&) override { return false; }
  bool wait_for_turns_in_progress(const TimePoint*) override { return true; }
};

// The release has its last line to log when all is gone.
TEST(LockLines, TheNextHolderMayDestroyTheLocks) {
  expect_ends([] {
    RunsAtOnce scheduler;
    GroupExecutor executor({}, scheduler);
    alignas(KeyLocks) std::array<std::byte, sizeof(KeyLocks)> memory{};
    int released = 0;
    auto* const locks = new (memory.data()) KeyLocks({.debug_log = [&](std::string_view line) {
      if (line.starts_with("Lock released")) ++released;
    }});
    KeyLocks::Guard held = locks->lock("k");
    auto task = executor.submit("g", [&]() -> Task<void> {
      {
        const KeyLocks::Guard guard = co_await locks->lock_async("k");
      }
      std::destroy_at(locks);
      memory.fill(std::byte{});
    });
    held.release();
    EXPECT_TRUE(task.join().ok());
    EXPECT_EQ(released, 2);
  });
}

// A waiter without a coroutine or thread behind it.
struct BareWaiter final : detail::LockWaiter {
  explicit BareWaiter(const detail::Operation& who)
      : LockWaiter(&who, LockMode::kExclusive, /*leaves=*/false) {}
  void granted() noexcept override {}
};

// A refused waiter leaves the graph first, and the line a moment later.
TEST(LockLine, AWaitLooksPastAWaiterThatWasRefused) {
  detail::LockTable table;
  const std::size_t hash = detail::LockTable::hash("k");
  const detail::Operation holder;
  const detail::Operation operations[3];
  BareWaiter first(operations[0]);
  BareWaiter refused(operations[1]);
  BareWaiter last(operations[2]);
  detail::LockEntry* entry =
      table.try_acquire("k", hash, &holder, holder.id(), LockMode::kExclusive);
  ASSERT_NE(entry, nullptr);
  for (BareWaiter* waiter : {&first, &refused, &last}) {
    waiter->in_graph = waiter != &refused;
    (void)table.acquire_or_wait("k", hash, *waiter);
  }
  const auto in_the_way = table.with_entry("k", hash, [&](const detail::LockEntry* of) {
    return detail::holders_in_the_way(*of, operations[2], LockMode::kExclusive, &last);
  });
  EXPECT_EQ(std::count(in_the_way.begin(), in_the_way.end(), operations[0].id()), 1);
  for (BareWaiter* waiter : {&first, &refused, &last}) {
    detail::LockTable::News news;
    EXPECT_TRUE(table.withdraw(hash, *waiter, /*cancels=*/false, news));
    news.tell();
  }
  table.release({entry, holder.id(), LockMode::kExclusive});
}

// ---- a permit of the waiter in front

// One branch of X has given the permit of its group back, the other stands in line. Y has the permit.
TEST(LockLine, AWaitBehindABranchThatNeedsTheWaitersPermitIsRefused) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({.default_group = {.max_concurrency = 1}}, sim);
    KeyLocks::Guard guard = locks.lock("k");
    const auto awaits_own_group = [&]() -> Task<void> {
      auto inner = executor.submit("g", "inner", [] {});
      (void)co_await inner;
    };
    const auto stands_in_line = [&]() -> Task<void> {
      const KeyLocks::Guard mine = co_await locks.lock_async("k");
    };
    executor.pause();
    auto x = executor.submit(
        "g", "X", [&]() -> Task<void> { co_await when_all(awaits_own_group(), stands_in_line()); });
    auto y = executor.submit("g", "Y", [&] { return refusal_async(locks, "k"); });
    executor.resume();
    sim.run_ready();
    guard.release();
    sim.run_until_idle();
    ASSERT_TRUE(x.is_done());
    ASSERT_TRUE(y.is_done());
    EXPECT_TRUE(x.join().ok());
    EXPECT_EQ(y.join().value(), ErrorCode::kWaitCycle);
  });
}

// A stands in line, and gives its permit back when the limit goes down, because B1 needs it. B2 gets that permit.
TEST(LockLine, AWaitBehindATaskThatLostItsPermitToALowerLimitIsRefused) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({.default_group = {.max_concurrency = 2}}, sim);
    KeyLocks::Guard guard = locks.lock("k");
    auto a = executor.submit("g", "A", [&] { return refusal_async(locks, "k"); });
    auto c = executor.submit("g", "C", []() -> Task<void> { co_await sleep_for(10ms); });
    auto b1 = executor.submit("g", "B1", [] {});
    sim.run_ready();
    ASSERT_EQ(locks.explain("k").waiting, 1U);
    auto shrinks = executor.submit("other", [&]() -> Task<void> {
      co_await sleep_for(1ms);
      EXPECT_TRUE(executor.set_limit("g", 1).ok());
    });
    EXPECT_TRUE(b1.join().ok());  // this thread holds the lock meanwhile
    auto b2 = executor.submit("g", "B2", [&] { return refusal_async(locks, "k"); });
    sim.run_ready();
    guard.release();
    sim.run_until_idle();
    ASSERT_TRUE(a.is_done());
    ASSERT_TRUE(b2.is_done());
    EXPECT_EQ(a.join().value(), std::nullopt);
    EXPECT_EQ(b2.join().value(), ErrorCode::kWaitCycle);
  });
}

// A waits in two branches. B1's wait is over; it takes the lock and waits again, for another group. So A gives the permit
// back a second time, because B2 still waits in A's group. Both permits of the group are then with tasks that want the
// lock, and A needs one to release it.
TEST(LockLine, ABranchThatWaitsAgainNeedsThePermitsOfItsTaskAgain) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor(
        {.groups = {{"g", {.max_concurrency = 2}}}, .default_group = {.max_concurrency = 8}}, sim);
    std::optional<ErrorCode> q_refused;
    TaskHandle<std::optional<ErrorCode>> last;
    const auto in_other_group = [&](Duration time) {
      return executor.submit("other", [time]() -> Task<void> { co_await sleep_for(time); });
    };
    const auto b1 = [&]() -> Task<void> {
      auto first = in_other_group(1ms);
      (void)co_await first;
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      last = executor.submit("g", "last", [&] { return refusal_async(locks, "k"); });
      auto second = in_other_group(10ms);
      (void)co_await second;
    };
    const auto b2 = [&]() -> Task<void> {
      auto q = executor.submit("g", "Q", [&]() -> Task<void> {
        co_await sleep_for(5ms);
        q_refused = co_await refusal_async(locks, "k");
      });
      (void)co_await q;
    };
    auto a = executor.submit("g", "A", [&]() -> Task<void> { co_await when_all(b1(), b2()); });
    sim.run_until_idle();
    ASSERT_TRUE(a.is_done());
    EXPECT_TRUE(a.join().ok());
    EXPECT_EQ(q_refused, ErrorCode::kWaitCycle);
    EXPECT_EQ(last.join().value(), std::nullopt);
  });
}

// ---- a thread for a coroutine

TEST(LockLine, AWaitBehindACoroutineLeavesItAThread) {
  expect_ends([] {
    KeyLocks locks;
    GroupExecutor executor({}, kOneThread);
    KeyLocks::Guard guard = locks.lock("k");
    auto in_front = executor.submit("x", [&] { return refusal_async(locks, "k"); });
    ASSERT_TRUE(eventually([&] { return locks.explain("k").waiting == 1; }));
    auto behind = executor.submit("y", [&] { return refusal(locks, "k"); });
    EXPECT_TRUE(eventually([&] { return behind.is_done() || locks.explain("k").waiting == 2; }));
    guard.release();
    EXPECT_EQ(behind.join().value(), ErrorCode::kNoThread);
    EXPECT_EQ(in_front.join().value(), std::nullopt);
  });
}

TEST(LockLine, AWaitForALockOfACoroutineLeavesItAThread) {
  expect_ends([] {
    KeyLocks locks;
    GroupExecutor executor({}, kOneThread);
    GroupExecutor other({}, kOneThread);
    std::latch may_end(1);
    auto outside = other.submit("o", [&] { may_end.wait(); });
    auto holder = executor.submit("x", [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      (void)co_await outside;
    });
    ASSERT_TRUE(eventually([&] { return locks.active_lock_count() == 1; }));
    auto waiter = executor.submit("y", [&] { return refusal(locks, "k"); });
    EXPECT_EQ(waiter.join().value(), ErrorCode::kNoThread);
    may_end.count_down();
    EXPECT_TRUE(holder.join().ok());
  });
}

// The task is done and has passed the guard on, so the lock's release does not need a thread of the task's scheduler.
TEST(LockLine, AGuardThatATaskReturnedNeedsNoThreadOfTheTask) {
  expect_ends([] {
    KeyLocks locks;
    GroupExecutor executor({}, kOneThread);
    auto maker = executor.submit(
        "x", [&]() -> Task<KeyLocks::Guard> { co_return co_await locks.lock_async("k"); });
    KeyLocks::Guard guard = maker.join().value();
    auto waiter = executor.submit("y", [&] { return refusal(locks, "k"); });
    EXPECT_TRUE(eventually([&] { return waiter.is_done() || locks.explain("k").waiting == 1; }));
    guard.release();
    EXPECT_EQ(waiter.join().value(), std::nullopt);
  });
}

TEST(LockLine, AGuardThatATaskReturnedMayOutliveItsExecutor) {
  expect_ends([] {
    KeyLocks locks;
    TaskHandle<KeyLocks::Guard> maker;  // keeps the task, whose executor is gone
    std::optional<KeyLocks::Guard> guard;
    {
      GroupExecutor executor({}, kOneThread);
      maker = executor.submit(
          "x", [&]() -> Task<KeyLocks::Guard> { co_return co_await locks.lock_async("k"); });
      guard = maker.join().value();
    }
    GroupExecutor executor({}, kOneThread);
    auto waiter = executor.submit("y", [&] { return refusal(locks, "k"); });
    EXPECT_TRUE(eventually([&] { return waiter.is_done() || locks.explain("k").waiting == 1; }));
    guard.reset();
    EXPECT_EQ(waiter.join().value(), std::nullopt);
  });
}

// ---- holders do not stand in line

// One of two readers wants to write. It waits for the other reader only: the writer in line waits for both of them.
TEST(LockLine, AReaderThatWantsToWriteDoesNotWaitForTheWriterInLine) {
  SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  bool wrote = false;
  auto other_reader = executor.submit("a", [&]() -> Task<void> {
    const KeyLocks::Guard reads = co_await locks.lock_async("k", LockMode::kShared);
    co_await sleep_for(10ms);
  });
  auto reader = executor.submit("b", [&]() -> Task<std::optional<ErrorCode>> {
    const KeyLocks::Guard reads = co_await locks.lock_async("k", LockMode::kShared);
    co_await sleep_for(1ms);
    EXPECT_EQ(locks.explain("k").waiting, 1U);
    const std::optional<ErrorCode> refused = co_await refusal_async(locks, "k");
    EXPECT_FALSE(wrote);
    co_return refused;
  });
  sim.run_ready();
  auto writer = executor.submit("c", [&]() -> Task<void> {
    const KeyLocks::Guard writes = co_await locks.lock_async("k");
    wrote = true;
  });
  EXPECT_EQ(reader.join().value(), std::nullopt);
  EXPECT_TRUE(writer.join().ok());
}

// ---- permits of the global limit

// Two threads and a global limit of 1. A joins X, and B1 and B2 stand before X at the global limit. If B1 waits, its
// permit goes to B2's group, which has no thread to use it, and B1 needs it back.
class LockLineAtTheGlobalLimit : public ::testing::Test {
 protected:
  // `wait`: in B1. Gives the code with which it was refused.
  template <class Wait>
  std::optional<ErrorCode> refusal_of(Wait wait) {
    ThreadPool pool({.threads = 2, .max_threads = 2});
    GroupExecutor executor({.global_max_in_flight = 1}, pool);
    std::latch all_at_the_gate(1);
    std::optional<ErrorCode> refused;
    TaskHandle<void> x;
    auto a = executor.submit("a", "A", [&] {
      all_at_the_gate.wait();
      EXPECT_TRUE(x.join().ok());
    });
    auto b1 = executor.submit("b1", "B1", [&] {
      try {
        wait(x);
      } catch (const Exception& exception) {
        refused = exception.code();
      }
    });
    auto b2 = executor.submit("b2", "B2", [] {});
    x = executor.submit("x", "X", [] {});
    std::latch seen(1);
    Job fence([&] { seen.count_down(); });
    pool.post(fence);  // runs after the turns of b1, b2 and x: one thread is free
    seen.wait();
    all_at_the_gate.count_down();
    executor.drain();
    return refused;
  }

  KeyLocks locks_;
};

TEST_F(LockLineAtTheGlobalLimit, AJoinWithATimeoutLeavesAThreadForTheReturn) {
  expect_ends([&] {
    EXPECT_EQ(refusal_of([](TaskHandle<void>& x) { (void)x.join_for(1us); }), ErrorCode::kNoThread);
  });
}

TEST_F(LockLineAtTheGlobalLimit, ALockWithATimeoutLeavesAThreadForTheReturn) {
  expect_ends([&] {
    const KeyLocks::Guard guard = locks_.lock("k");
    EXPECT_EQ(refusal_of([&](TaskHandle<void>&) { (void)locks_.try_lock_for("k", 1us); }),
              ErrorCode::kNoThread);
  });
}

}  // namespace
}  // namespace keyway
