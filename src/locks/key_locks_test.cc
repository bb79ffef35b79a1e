// Threads and locks. Coroutines: key_locks_async_test.cc; cycles: lock_cycles_test.cc; guards: lock_guards_test.cc.
#include "keyway/key_locks.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/jobs.h"
#include "support/memory.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

constexpr int kLoops = kSanitized ? 2'000 : 20'000;

// Waits until so many stand in line for a key.
void wait_for_line(const KeyLocks& locks, std::string_view key, std::uint64_t waiting) {
  ASSERT_TRUE(eventually([&] { return locks.explain(key).waiting == waiting; }));
}

TEST(KeyLocks, KeepTwoThreadsApartThatLockTheSameKey) {
  KeyLocks locks;
  int counter = 0;  // not atomic: the lock orders the threads
  const auto count = [&] {
    for (int i = 0; i < kLoops; ++i) locks.with_lock("project-1", [&] { ++counter; });
  };
  std::thread one(count);
  std::thread other(count);
  one.join();
  other.join();
  EXPECT_EQ(counter, 2 * kLoops);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocks, OfDifferentKeysAreHeldSideBySide) {
  KeyLocks locks;
  std::latch both_hold(2);
  const auto hold = [&](std::string_view key) {
    const KeyLocks::Guard guard = locks.lock(key);
    both_hold.arrive_and_wait();  // would never end if one kept the other out
  };
  std::thread one([&] { hold("project-1"); });
  std::thread other([&] { hold("project-2"); });
  one.join();
  other.join();
}

TEST(KeyLocks, CanBeLockedAgainByTheirHolder) {
  KeyLocks locks;
  const int result = locks.with_lock("project-1", [&] {
    return locks.with_lock("project-1", [&] {
      const KeyLocks::Guard third = locks.lock("project-1");
      EXPECT_EQ(locks.holders("project-1").at(0).times, 3U);
      return 7;
    });
  });
  EXPECT_EQ(result, 7);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocks, StayHeldUntilTheLastNestedGuardIsGone) {
  KeyLocks locks;
  KeyLocks::Guard outer = locks.lock("a");
  KeyLocks::Guard inner = locks.lock("a");
  const auto other_gets_it = [&] {
    bool got = false;
    std::thread([&] { got = static_cast<bool>(locks.try_lock("a")); }).join();
    return got;
  };
  outer.release();  // in whichever order
  EXPECT_FALSE(other_gets_it());
  inner.release();
  EXPECT_TRUE(other_gets_it());
}

TEST(KeyLocks, AreReleasedIfTheWorkThrows) {
  KeyLocks locks;
  EXPECT_THROW(locks.with_lock("project-1", [] { throw std::runtime_error("disk full"); }),
               std::runtime_error);
  EXPECT_EQ(locks.active_lock_count(), 0U);
  EXPECT_EQ(locks.with_lock("project-1", [] { return 1; }), 1);
}

TEST(KeyLocks, CountTheKeysThatAreHeldOrWaitedFor) {
  KeyLocks locks;
  EXPECT_EQ(locks.active_lock_count(), 0U);
  KeyLocks::Guard a = locks.lock("a");
  KeyLocks::Guard b = locks.lock("b");
  KeyLocks::Guard b_again = locks.lock("b");
  EXPECT_EQ(locks.active_lock_count(), 2U);
  a.release();
  EXPECT_EQ(locks.active_lock_count(), 1U);
}

TEST(KeyLocks, AreRemovedWithTheirLastHolderOrWaiter) {
  KeyLocks locks;
  KeyLocks::Guard guard = locks.lock("a");
  std::thread waiter([&] { const KeyLocks::Guard waited = locks.lock("a"); });
  wait_for_line(locks, "a", 1);
  guard.release();
  EXPECT_LE(locks.active_lock_count(), 1U);
  waiter.join();
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocks, OfAMillionKeysLeaveNothingBehind) {
  KEYWAY_SKIP_IF_SANITIZED();
  KeyLocks locks;
  const auto lock_many = [&](int from) {
    for (int i = from; i < from + 1'000'000; ++i) {
      const KeyLocks::Guard guard =
          locks.lock("a key of more than twenty-eight bytes " + std::to_string(i));
    }
  };
  lock_many(0);
  const std::int64_t before = resident_bytes();
  lock_many(1'000'000);
  EXPECT_EQ(locks.active_lock_count(), 0U);
  EXPECT_LT(resident_bytes() - before, 256 * 1024);
}

// The tables of the shards grow with the keys that are held at once.
TEST(KeyLocks, OfManyKeysHeldAtOnceLeaveNothingBehind) {
  KEYWAY_SKIP_IF_SANITIZED();
  KeyLocks locks;
  const std::size_t before = ::mallinfo2().uordblks;
  {
    std::vector<KeyLocks::Guard> guards;
    for (int i = 0; i < 200'000; ++i) guards.push_back(locks.lock("key " + std::to_string(i)));
  }
  EXPECT_LT(::mallinfo2().uordblks, before + 64 * 1024);
}

TEST(KeyLocks, HoldManyKeysAtOnce) {
  KeyLocks locks;
  std::vector<KeyLocks::Guard> guards;
  for (int i = 0; i < 10'000; ++i) guards.push_back(locks.lock("key " + std::to_string(i)));
  EXPECT_EQ(locks.active_lock_count(), 10'000U);
  bool found = false;
  std::thread([&] {
    for (int i = 0; i < 10'000; ++i) {
      found = found || locks.try_lock("key " + std::to_string(i));
    }
    EXPECT_TRUE(locks.try_lock("key 10000"));
  }).join();
  EXPECT_FALSE(found);
  // Every other one first, so that chains are cut in the middle.
  for (std::size_t i = 0; i < guards.size(); i += 2) guards[i].release();
  EXPECT_EQ(locks.active_lock_count(), 5'000U);
  EXPECT_TRUE(locks.explain("key 1").holders.size() == 1 && locks.explain("key 0").holders.empty());
  guards.clear();
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocks, WaitersGetTheLockInTheOrderTheyAsked) {
  KeyLocks locks;
  KeyLocks::Guard guard = locks.lock("a");
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const KeyLocks::Guard mine = locks.lock("a");
      order.push_back(i);
    });
    wait_for_line(locks, "a", static_cast<std::uint64_t>(i) + 1);
  }
  guard.release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(KeyLocks, CannotBeTakenPastThoseWhoWait) {
  KeyLocks locks;
  KeyLocks::Guard guard = locks.lock("a", LockMode::kShared);
  std::thread writer([&] { const KeyLocks::Guard mine = locks.lock("a"); });
  wait_for_line(locks, "a", 1);
  std::thread([&] { EXPECT_FALSE(locks.try_lock("a", LockMode::kShared)); }).join();
  guard.release();
  writer.join();
}

TEST(KeyLocks, AreSharedByReadersAndKeptFromWriters) {
  KeyLocks locks;
  std::latch both_read(2);
  std::latch done(1);
  const auto read = [&] {
    const KeyLocks::Guard guard = locks.lock("a", LockMode::kShared);
    both_read.arrive_and_wait();
    done.wait();
  };
  std::thread one(read);
  std::thread other(read);
  both_read.wait();
  EXPECT_FALSE(locks.try_lock("a"));
  EXPECT_EQ(locks.holders("a").size(), 2U);
  EXPECT_TRUE(locks.try_lock("a", LockMode::kShared));
  done.count_down();
  one.join();
  other.join();
  EXPECT_TRUE(locks.try_lock("a"));
}

TEST(KeyLocks, LetAReaderInAgainThoughAWriterWaits) {
  KeyLocks locks;
  KeyLocks::Guard first = locks.lock("a", LockMode::kShared);
  std::thread writer([&] { const KeyLocks::Guard mine = locks.lock("a"); });
  wait_for_line(locks, "a", 1);
  KeyLocks::Guard second = locks.lock("a", LockMode::kShared);
  first.release();
  second.release();
  writer.join();
}

TEST(KeyLocks, LetASoleReaderWriteBeforeThoseWhoWait) {
  KeyLocks locks;
  KeyLocks::Guard reads = locks.lock("a", LockMode::kShared);
  std::atomic<bool> other_wrote = false;
  std::thread writer([&] {
    const KeyLocks::Guard mine = locks.lock("a");
    other_wrote = true;
  });
  wait_for_line(locks, "a", 1);
  KeyLocks::Guard writes = locks.lock("a");
  EXPECT_FALSE(other_wrote);
  writes.release();
  EXPECT_FALSE(other_wrote);  // it still reads
  reads.release();
  writer.join();
}

TEST(KeyLocks, ReadersGoOnWhenTheWriterBeforeThemGivesUp) {
  testing::SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  const TimePoint began = sim.now();
  const KeyLocks::Guard reads = locks.lock("a", LockMode::kShared);
  auto writer = executor.submit("writer", [&] {
    EXPECT_FALSE(locks.try_lock_for("a", 50ms));
    return sim.now() - began;
  });
  auto reader = executor.submit("reader", [&] {
    const KeyLocks::Guard mine = locks.lock("a", LockMode::kShared);
    return sim.now() - began;
  });
  EXPECT_EQ(reader.join().value(), 50ms) << "although `reads` still holds it";
  EXPECT_EQ(writer.join().value(), 50ms);
}

TEST(KeyLocks, AreNotHadByATryThatComesTooEarly) {
  KeyLocks locks;
  const KeyLocks::Guard guard = locks.lock("a");
  std::thread([&] {
    EXPECT_FALSE(locks.try_lock("a"));
    EXPECT_FALSE(locks.try_lock_for("a", 1ms));
    EXPECT_FALSE(locks.try_lock_for("a", -1ms));
  }).join();
  EXPECT_EQ(locks.explain("a").waiting, 0U);
}

TEST(KeyLocks, AreHadByATryThatWaitsLongEnough) {
  KeyLocks locks;
  KeyLocks::Guard guard = locks.lock("a");
  bool got = false;
  std::thread waiter([&] { got = static_cast<bool>(locks.try_lock_for("a", Duration::max())); });
  wait_for_line(locks, "a", 1);
  guard.release();
  waiter.join();
  EXPECT_TRUE(got);
}

TEST(KeyLocks, RefuseAnEmptyKey) {
  KeyLocks locks;
  EXPECT_THROW((void)locks.lock(""), Exception);
  EXPECT_THROW((void)locks.try_lock(""), Exception);
  EXPECT_THROW((void)locks.lock_all({"a", ""}), Exception);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(KeyLocks, SayWhoHoldsAKeyAndWhoWaits) {
  KeyLocks locks;
  EXPECT_EQ(locks.explain("a").text(), "key \"a\": free");
  KeyLocks::Guard guard = locks.lock("a");
  const std::string thread = "thread " + std::to_string(gettid());
  EXPECT_EQ(locks.holders("a").at(0).name, thread);
  EXPECT_EQ(locks.explain("a").text(), "key \"a\": held by " + thread);
  std::thread waiter([&] { const KeyLocks::Guard mine = locks.lock("a", LockMode::kShared); });
  wait_for_line(locks, "a", 1);
  KeyLocks::Guard again = locks.lock("a");
  const std::string text = locks.explain("a").text();
  EXPECT_TRUE(
      text.starts_with("key \"a\": held by " + thread + " 2 times; 1 waiting, the first for "))
      << text;
  again.release();
  guard.release();
  waiter.join();
  const KeyLocks::Guard reads = locks.lock("b", LockMode::kShared);
  EXPECT_EQ(locks.explain("b").text(), "key \"b\": held by " + thread + " (shared)");
}

TEST(KeyLocks, WithLockGivesWhatTheWorkReturns) {
  KeyLocks locks;
  int number = 3;
  int& reference = locks.with_lock("a", [&]() -> int& { return number; });
  EXPECT_EQ(&reference, &number);
  EXPECT_EQ(*locks.with_lock("a", [] { return std::make_unique<int>(4); }), 4);
}

TEST(KeyLocksDeathTest, CannotBeDestroyedWhileAGuardIsOutAndNamesItsHolder) {
  EXPECT_DEATH(
      {
        auto* locks = new KeyLocks;
        KeyLocks::Guard guard = locks->lock("a");
        delete locks;
      },
      "a KeyLocks is destroyed while a lock is held or waited for: key \"a\": held by thread "
      "[0-9]+; destroy it");
}

TEST(KeyLocks, AStopThatWasRequestedBeforeTakesNoFreeLock) {
  KeyLocks locks;
  std::stop_source stop;
  {
    const KeyLocks::Guard guard = locks.lock("a", stop.get_token());
  }
  stop.request_stop();
  EXPECT_THROW(static_cast<void>(locks.lock("a", stop.get_token())), CancelledError);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

}  // namespace
}  // namespace keyway
