// Locks that pass from a part of an operation to the operation, while others wait for them.
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "keyway/key_locks.h"
#include "keyway/task.h"

namespace keyway::explore {
namespace {

constexpr ScenarioOptions kThreeThreads{.threads = 3};

// A branch ends with the lock. Its task has it then, and may lock it again; another task stands in line meanwhile.
class LockPassesToTheTask final : public GroupScenario {
 public:
  LockPassesToTheTask() : GroupScenario(1, {}) {}
  void client(int) override {
    std::vector<TaskHandle<int>> handles;
    {
      const Uninterrupted both;
      handles.push_back(executor().submit("a", [this] { return locks_again(); }));
      handles.push_back(executor().submit("b", [this] { return locks(); }));
    }
    for (auto& handle : handles) require(handle.join().ok(), "it did not end");
    require(locks_.active_lock_count() == 0, "a lock is left over");
  }

 private:
  Task<KeyLocks::Guard> take() { co_return co_await locks_.lock_async("k"); }
  Task<int> locks_again() {
    const auto guards = co_await when_all(take());
    const Gauge::Inside inside(gauge_, 1);
    const KeyLocks::Guard again = co_await locks_.lock_async("k");
    co_return 1;
  }
  Task<int> locks() {
    const KeyLocks::Guard guard = co_await locks_.lock_async("k");
    const Gauge::Inside inside(gauge_, 1);
    co_return 1;
  }
  KeyLocks locks_;
  Gauge gauge_;
};
TEST(ExploreLockPassing, ALockPassesFromABranchToItsTask) {
  expect_holds<LockPassesToTheTask>("LockTable", kThreeThreads);
}

// Two branches want the lock, and end with it: the second one gets it when it has passed to the task.
class LockPassesToASibling final : public GroupScenario {
 public:
  LockPassesToASibling() : GroupScenario(1, {}) {}
  void client(int) override {
    auto task = executor().submit("a", [this]() -> Task<int> {
      const auto guards = co_await when_all(take(), take());
      co_return 1;
    });
    locks_.with_lock("k", [] { yield(); });
    require(task.join().ok(), "it did not end");
    require(locks_.active_lock_count() == 0, "a lock is left over");
  }

 private:
  Task<KeyLocks::Guard> take() {
    co_await sleep_for(std::chrono::seconds(1));  // goes on beside the other branch
    KeyLocks::Guard guard = co_await locks_.lock_async("k");
    co_return guard;
  }
  KeyLocks locks_;
};
TEST(ExploreLockPassing, ALockPassesFromABranchToItsSibling) {
  expect_holds<LockPassesToASibling>("LockTable", kThreeThreads);
}

// "stranger" stands first in line, and a thread sleeps behind it. When the lock passes to the task that awaits "stranger",
// that wait is refused, and the thread comes first. It is woken then, or nobody wakes it when it gets the lock.
class ARefusedWaitInFrontOfAThread final : public GroupScenario {
 public:
  ARefusedWaitInFrontOfAThread() : GroupScenario(1, {}) {}
  void client(int) override {
    {
      const Uninterrupted both;
      stranger_ = executor().submit("s", [this] { return wait_in_line(); });
      task_ = executor().submit("t", [this]() -> Task<void> {
        co_await when_all(keep(), wait_for_stranger());
        kept_ = {};
      });
    }
    (void)executor().submit("c", []() { return sleep(2); }).join();
    {
      const KeyLocks::Guard guard = locks_.lock("k");
    }
    require(task_.join().ok(), "it did not end");
  }

 private:
  static Task<void> sleep(int seconds) { co_await sleep_for(std::chrono::seconds(seconds)); }
  Task<void> keep() {
    kept_ = co_await locks_.lock_async("k");
    co_await sleep(3);
  }
  Task<void> wait_for_stranger() { (void)co_await stranger_; }
  Task<void> wait_in_line() {
    co_await sleep(1);
    try {
      const KeyLocks::Guard guard = co_await locks_.lock_async("k");
      require(false, "the wait of a cycle was not refused");
    } catch (const Exception& error) {
      require(error.code() == ErrorCode::kWaitCycle, "refused for another reason");
    }
  }
  KeyLocks locks_;
  KeyLocks::Guard kept_;
  TaskHandle<void> task_;
  TaskHandle<void> stranger_;
};
TEST(ExploreLockPassing, ARefusedWaitWakesTheThreadThatComesFirst) {
  expect_holds<ARefusedWaitInFrontOfAThread>("LockTable");
}

}  // namespace
}  // namespace keyway::explore
