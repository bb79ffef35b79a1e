// Waits for locks that could never end: refused, with an error that names the cycle.
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/serial_dispatcher.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"
#include "support/jobs.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

// The error that a call is refused with because it could never end; empty if it is not.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), ErrorCode::kWaitCycle) << exception.what();
    return exception.what();
  }
  return {};
}

// ---- locks that a task leaves in its result

struct Told final : TaskLifecycleListener {
  void on_completed(std::string_view group, std::string_view, const TaskOutcome&) override {
    if (group == "told") call();
  }
  std::function<void()> call;
};

// The task that `submit` submits to group "told" returns a guard of "k", and its listener then calls `call`.
template <class Submit, class Call>
void expect_listener_ends(Submit submit, Call call) {
  expect_ends([&] {
    testing::SimScheduler sim;
    KeyLocks locks;
    const auto listener = std::make_shared<Told>();
    GroupExecutor executor({.listener = listener}, sim);
    bool told = false;
    listener->call = [&] {
      call(executor, locks);
      told = true;
    };
    auto rival = executor.submit("rival", [&]() -> Task<void> {
      co_await sleep_for(2s);
      (void)co_await locks.lock_async("k");
    });
    {
      auto handle = submit(executor, locks);
      const KeyLocks::Guard guard = handle.join().value();
      EXPECT_TRUE(told);
      // Once the result is published, the lock belongs to an unknown operation.
      EXPECT_EQ(locks.holders("k").at(0).name.substr(0, 6), "thread");
    }
    EXPECT_TRUE(rival.join().ok());
  });
}

TaskHandle<KeyLocks::Guard> submit_task(GroupExecutor& executor, KeyLocks& locks) {
  return executor.submit("told", "x", [&] { return locks.lock("k"); });
}
TaskHandle<KeyLocks::Guard> submit_coroutine(GroupExecutor& executor, KeyLocks& locks) {
  return executor.submit("told", "x", [&]() -> Task<KeyLocks::Guard> {
    KeyLocks::Guard guard = co_await locks.lock_async("k");
    co_await sleep_for(1s);
    co_return guard;
  });
}
TaskHandle<KeyLocks::Guard> submit_coroutine_that_never_waits(GroupExecutor& executor,
                                                              KeyLocks& locks) {
  return executor.submit(
      "told", "x", [&]() -> Task<KeyLocks::Guard> { co_return co_await locks.lock_async("k"); });
}
Task<KeyLocks::Guard> take(KeyLocks& locks) { co_return co_await locks.lock_async("k"); }
TaskHandle<KeyLocks::Guard> submit_coroutine_with_a_part(GroupExecutor& executor, KeyLocks& locks) {
  return executor.submit("told", "x", [&]() -> Task<KeyLocks::Guard> {
    co_return co_await with_timeout(1s, take(locks));
  });
}

void expect_refused_in_listener(GroupExecutor&, KeyLocks& locks) {
  EXPECT_EQ(
      refusal([&] { (void)locks.lock("k"); }),
      "waiting for key \"k\" would never end: task \"x\" of group \"told\" waits for key \"k\"; "
      "release the lock before the wait, or take the result after it");
}

TEST(LockCycle, OfAListenerAndAGuardInTheResultIsRefused) {
  expect_listener_ends(submit_task, expect_refused_in_listener);
}
TEST(LockCycle, OfAListenerAndAGuardInTheResultOfACoroutineIsRefused) {
  expect_listener_ends(submit_coroutine, expect_refused_in_listener);
  expect_listener_ends(submit_coroutine_that_never_waits, expect_refused_in_listener);
  expect_listener_ends(submit_coroutine_with_a_part, expect_refused_in_listener);
}

// Between the start of the task and its end, another one begins on the stack of a simulated thread of its own.
TEST(LockCycle, OfAListenerAndAGuardInTheResultOfATaskThatWaitedIsRefused) {
  TaskHandle<void> slow, waits;
  const auto submit = [&](GroupExecutor& executor, KeyLocks& locks) {
    slow = executor.submit("slow", "s", []() -> Task<void> { co_await sleep_for(10s); });
    return executor.submit("told", "x", [&] {
      KeyLocks::Guard guard = locks.lock("k");
      waits = executor.submit("g", "w", [&] { (void)slow.join(); });
      EXPECT_FALSE(waits.join_for(1s).ok());
      return guard;
    });
  };
  expect_listener_ends(submit, expect_refused_in_listener);
}

// The listener waits for a task that wants the lock.
TEST(LockCycle, OfAListenerATaskAndAGuardInTheResultIsRefused) {
  const auto wait_for_task = [](GroupExecutor& executor, KeyLocks& locks) {
    auto wants = executor.submit("g", [&] { return refusal([&] { (void)locks.lock("k"); }); });
    EXPECT_NE(wants.join().value().find("would never end"), std::string::npos);
  };
  expect_listener_ends(submit_task, wait_for_task);
  expect_listener_ends(submit_coroutine, wait_for_task);
}

// Of so many locks an operation does not know which ones it holds, also when it has released some of them.
TEST(LockCycle, OfAnOperationThatHasHeldManyLocksIsRefused) {
  expect_ends([] {
    testing::SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    const auto lock_late = [&](std::string_view key) -> Task<bool> {
      try {
        const KeyLocks::Guard guard = co_await locks.lock_async(key);
      } catch (const Exception& exception) {
        EXPECT_EQ(exception.code(), ErrorCode::kWaitCycle);
        co_return false;
      }
      co_return true;
    };
    auto one = executor.submit("one", [&]() -> Task<bool> {
      std::vector<KeyLocks::Guard> held;
      for (const char* key : {"a", "b", "c", "d", "e"}) {
        held.push_back(co_await locks.lock_async(key));
      }
      held.erase(held.begin());
      co_await sleep_for(10ms);
      co_return co_await lock_late("x");
    });
    auto other = executor.submit("other", [&]() -> Task<bool> {
      const KeyLocks::Guard held = co_await locks.lock_async("x");
      co_await sleep_for(1ms);
      co_return co_await lock_late("e");
    });
    EXPECT_FALSE(one.join().value());
    EXPECT_TRUE(other.join().value());
  });
}

// A timeout without an end is no timeout.
TEST(LockCycle, IsRefusedAlsoIfBothWaitForAnUnlimitedTime) {
  expect_ends([] {
    KeyLocks locks;
    std::latch both_hold(2);
    std::atomic<int> refused = 0;
    const auto lock_both = [&](std::string_view first, std::string_view second) {
      const KeyLocks::Guard guard = locks.lock(first);
      both_hold.arrive_and_wait();
      const std::string error =
          refusal([&] { EXPECT_TRUE(locks.try_lock_for(second, Duration::max())); });
      if (!error.empty()) ++refused;
    };
    std::thread one([&] { lock_both("a", "b"); });
    std::thread other([&] { lock_both("b", "a"); });
    one.join();
    other.join();
    EXPECT_EQ(refused, 1);
  });
}

TEST(LockCycle, OfTwoThreadsIsRefusedToOneAndNamed) {
  KeyLocks locks;
  std::latch both_hold(2);
  const auto lock_both = [&](std::string_view first, std::string_view second) {
    const KeyLocks::Guard guard = locks.lock(first);
    both_hold.arrive_and_wait();
    return refusal([&] { const KeyLocks::Guard next = locks.lock(second); });
  };
  std::string one_refused;
  std::string other_refused;
  pid_t one_id = 0;
  pid_t other_id = 0;
  std::thread one([&] {
    one_id = gettid();
    one_refused = lock_both("a", "b");
  });
  std::thread other([&] {
    other_id = gettid();
    other_refused = lock_both("b", "a");
  });
  one.join();
  other.join();
  EXPECT_NE(one_refused.empty(), other_refused.empty()) << "exactly one of them is refused";
  const std::string one_waits = "thread " + std::to_string(one_id) + " waits for key \"b\"";
  const std::string other_waits = "thread " + std::to_string(other_id) + " waits for key \"a\"";
  if (other_refused.empty()) {
    EXPECT_EQ(one_refused, "waiting for key \"b\" would never end: " + one_waits + "; " +
                               other_waits +
                               "; take the keys in one order everywhere, or by lock_all()");
  } else {
    EXPECT_EQ(other_refused, "waiting for key \"a\" would never end: " + other_waits + "; " +
                                 one_waits +
                                 "; take the keys in one order everywhere, or by lock_all()");
  }
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

TEST(LockCycle, OfManyThreadsIsRefusedToOne) {
  constexpr std::size_t kThreads = 6;
  KeyLocks locks;
  std::latch all_hold(kThreads);
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const KeyLocks::Guard mine = locks.lock(std::to_string(i));
      all_hold.arrive_and_wait();
      const std::string why = refusal(
          [&] { const KeyLocks::Guard next = locks.lock(std::to_string((i + 1) % kThreads)); });
      if (why.empty()) return;
      ++refused;
      for (std::size_t key = 0; key < kThreads; ++key) {
        EXPECT_NE(why.find("key \"" + std::to_string(key) + '"'), std::string::npos) << why;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 1);
}

TEST(LockCycle, IsNotSeenInAWaitWithATimeout) {
  testing::SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  const TimePoint began = sim.now();
  auto gives_up = executor.submit("gives up", [&]() -> Task<Duration> {
    const KeyLocks::Guard b = locks.lock("b");
    co_await sleep_for(1ms);
    EXPECT_FALSE(locks.try_lock_for("a", 20ms));
    co_return sim.now() - began;
  });
  auto waits = executor.submit("waits", [&]() -> Task<Duration> {
    const KeyLocks::Guard a = locks.lock("a");
    co_await sleep_for(2ms);
    EXPECT_EQ(refusal([&] { const KeyLocks::Guard b = locks.lock("b"); }), "");
    co_return sim.now() - began;
  });
  EXPECT_EQ(gives_up.join().value(), 21ms);
  EXPECT_EQ(waits.join().value(), 21ms);
}

TEST(LockCycle, OfTwoReadersWhoBothWantToWriteIsRefusedToTheSecond) {
  KeyLocks locks;
  std::latch both_read(2);
  std::atomic<int> refused = 0;
  const auto upgrade = [&] {
    const KeyLocks::Guard reads = locks.lock("a", LockMode::kShared);
    both_read.arrive_and_wait();
    const std::string message = refusal([&] { const KeyLocks::Guard writes = locks.lock("a"); });
    if (message.empty()) return;
    ++refused;
    EXPECT_NE(message.find("; a reader that is to write must lock the key exclusively from the "
                           "beginning, or release it before"),
              std::string::npos)
        << message;
    EXPECT_EQ(message.find("lock_all"), std::string::npos) << message;
  };
  std::thread one(upgrade);
  std::thread other(upgrade);
  one.join();
  other.join();
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(locks.active_lock_count(), 0U);
}

// Two locks that have one name: nobody locks again what it holds.
TEST(LockCycle, OfTwoLockManagersWithOneKeyIsNotTakenForThatOfTwoReaders) {
  KeyLocks one;
  KeyLocks other;
  KeyLocks::Guard mine = one.lock("a", LockMode::kShared);
  std::latch has_other(1);
  std::thread thread([&] {
    const KeyLocks::Guard its_own = other.lock("a", LockMode::kShared);
    has_other.count_down();
    const KeyLocks::Guard writes = one.lock("a");
  });
  has_other.wait();
  ASSERT_TRUE(eventually([&] { return one.explain("a").waiting == 1; }));
  const std::string message = refusal([&] { const KeyLocks::Guard writes = other.lock("a"); });
  EXPECT_NE(message.find("take the keys in one order everywhere"), std::string::npos) << message;
  mine.release();
  thread.join();
}

TEST(LockCycle, ThroughReadersBehindAWriterIsFound) {
  KeyLocks locks;
  KeyLocks::Guard reads = locks.lock("a", LockMode::kShared);
  std::thread writer([&] { const KeyLocks::Guard mine = locks.lock("a"); });
  ASSERT_TRUE(eventually([&] { return locks.explain("a").waiting == 1; }));
  std::latch has_b(1);
  std::thread reader([&] {
    const KeyLocks::Guard b = locks.lock("b");
    has_b.count_down();
    const KeyLocks::Guard mine = locks.lock("a", LockMode::kShared);  // behind the writer
  });
  has_b.wait();
  ASSERT_TRUE(eventually([&] { return locks.explain("a").waiting == 2; }));
  EXPECT_NE(refusal([&] { const KeyLocks::Guard b = locks.lock("b"); }), "");
  reads.release();
  writer.join();
  reader.join();
}

TEST(LockCycle, ThroughTwoLockManagersIsFound) {
  KeyLocks one;
  KeyLocks other;
  const KeyLocks::Guard a = one.lock("a");
  std::latch has_b(1);
  std::thread thread([&] {
    const KeyLocks::Guard b = other.lock("b");
    has_b.count_down();
    const KeyLocks::Guard mine = one.lock("a");
  });
  has_b.wait();
  ASSERT_TRUE(eventually([&] { return one.explain("a").waiting == 1; }));
  EXPECT_NE(refusal([&] { const KeyLocks::Guard b = other.lock("b"); }), "");
  const_cast<KeyLocks::Guard&>(a).release();
  thread.join();
}

TEST(LockCycle, OfAThreadThatWaitsForATaskThatWantsItsLockIsFound) {
  KeyLocks locks;
  GroupExecutor executor({});
  KeyLocks::Guard guard = locks.lock("a");
  auto handle =
      executor.submit("group", "1", [&] { const KeyLocks::Guard mine = locks.lock("a"); });
  ASSERT_TRUE(eventually([&] { return locks.explain("a").waiting == 1; }));
  const std::string why = refusal([&] { (void)handle.join(); });
  EXPECT_NE(why.find("task \"1\" of group \"group\" waits for key \"a\""), std::string::npos)
      << why;
  guard.release();
  EXPECT_TRUE(handle.join().ok());
}

TEST(LockCycle, OfALockAndAQueueIsFound) {
  testing::SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  TaskHandle<void> second;
  // The first of "a" waits for the lock, which belongs to the task of "b", which waits for the second of "a".
  auto first = executor.submit("a", "1", [&]() -> Task<void> {
    co_await sleep_for(1ms);
    const KeyLocks::Guard guard = co_await locks.lock_async("key");
  });
  auto holder = executor.submit("b", "1", [&]() -> Task<void> {
    const KeyLocks::Guard guard = co_await locks.lock_async("key");
    co_await sleep_for(2ms);
    (void)co_await second;
  });
  second = executor.submit("a", "2", [] {});
  EXPECT_NE(refusal([&] { holder.join().value(); }), "");
  EXPECT_TRUE(first.join().ok());
}

// The one who calls holds a lock that the work wants: the work is refused it, whoever runs the work.
TEST(LockCycle, ThroughADispatcherIsFound) {
  expect_ends([] {
    for (const Routing routing : {Routing::kPerKey, Routing::kSticky}) {
      for (const int total : {kUnlimited, 0}) {  // by a worker, or by the caller itself
        SerialDispatcher dispatcher(
            {.total_capacity = total, .on_full = OnFull::kCallerRuns, .routing = routing});
        KeyLocks locks;
        const auto wants_it = [&] {
          return !refusal([&] { const KeyLocks::Guard guard = locks.lock("record"); }).empty();
        };
        const KeyLocks::Guard held = locks.lock("record");
        EXPECT_TRUE(dispatcher.run("a", wants_it).value());
      }
    }
  });
}

TEST(LockCycle, OfCoroutinesIsRefusedToOneAndNamed) {
  testing::SimScheduler sim;
  KeyLocks locks;
  GroupExecutor executor({}, sim);
  const auto lock_both = [&](std::string first, std::string second) -> Task<void> {
    const KeyLocks::Guard guard = co_await locks.lock_async(first);
    co_await sleep_for(1ms);
    const KeyLocks::Guard next = co_await locks.lock_async(second);
  };
  auto one = executor.submit("one", "1", [&] { return lock_both("a", "b"); });
  auto other = executor.submit("other", "2", [&] { return lock_both("b", "a"); });
  EXPECT_TRUE(one.join().ok());
  EXPECT_EQ(
      refusal([&] { other.join().value(); }),
      "waiting for key \"a\" would never end: task \"2\" of group \"other\" waits for key \"a\"; "
      "task \"1\" of group \"one\" waits for key \"b\"; take the keys in one order everywhere, or "
      "by lock_all()");
}

TEST(LockCycle, IsNotSeenThroughAGuardThatWasPassedOn) {
  KeyLocks locks;
  KeyLocks::Guard passed_on = locks.lock("a");
  passed_on.disown();
  std::latch has_b(1);
  std::thread other([&] {
    const KeyLocks::Guard b = locks.lock("b");
    has_b.count_down();
    const KeyLocks::Guard a = locks.lock("a");
  });
  has_b.wait();
  ASSERT_TRUE(eventually([&] { return locks.explain("a").waiting == 1; }));
  std::thread releaser([&] {
    ASSERT_TRUE(eventually([&] { return locks.explain("b").waiting == 1; }));
    passed_on.release();
  });
  EXPECT_EQ(refusal([&] { const KeyLocks::Guard b = locks.lock("b"); }), "");
  other.join();
  releaser.join();
}

// "waits" wants the lock that "holder" has, for a limited time. So "holder" may wait for it.
TEST(LockCycle, IsNotSeenInAWaitThatAnotherBranchEnds) {
  for (const bool with_timer : {false, true}) {
    testing::SimScheduler sim;
    KeyLocks locks;
    GroupExecutor executor({}, sim);
    const auto lock = [&]() -> Task<int> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      co_return 1;
    };
    const auto nap = []() -> Task<int> {
      co_await sleep_for(10ms);
      co_return 2;
    };
    auto holder = executor.submit("a", "holder", [&]() -> Task<void> {
      const KeyLocks::Guard guard = co_await locks.lock_async("k");
      auto waits = executor.submit("b", "waits", [&]() -> Task<void> {
        if (with_timer) {
          co_await with_timeout(10ms, lock());
        } else {
          co_await when_any(lock(), nap());
        }
      });
      co_await sleep_for(1ms);
      (void)co_await waits;
    });
    EXPECT_TRUE(holder.join().ok()) << with_timer;
  }
}

}  // namespace
}  // namespace keyway
