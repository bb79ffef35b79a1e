// LockTable, through KeyLocks: a key has one holder, or several that share it; every waiter gets it, or gives up.
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "explore/explorations.h"
#include "keyway/key_locks.h"
#include "keyway/task.h"

namespace keyway::explore {
namespace {

class LockScenario : public Scenario {
 protected:
  void hold(LockMode mode) {
    if (mode == LockMode::kExclusive) {
      require(exclusive_ == 0 && shared_ == 0, "a key that is held was locked");
      ++exclusive_;
      data_.write(data_.read() + 1);
    } else {
      require(exclusive_ == 0, "a key that is held exclusively was locked shared");
      ++shared_;
      data_.read();
    }
    yield();
    --(mode == LockMode::kExclusive ? exclusive_ : shared_);
  }
  void hold_or_give_up() {
    if (const KeyLocks::Guard guard = locks_.try_lock_for("k", std::chrono::nanoseconds(1))) {
      hold(LockMode::kExclusive);
    }
  }
  void check() override { require(locks_.active_lock_count() == 0, "a lock is left over"); }

  KeyLocks locks_;

 private:
  int exclusive_ = 0;
  int shared_ = 0;
  Data<int> data_;
};

class LockAgainstLock final : public LockScenario {
 public:
  void run(int) override {
    for (int i = 0; i < 2; ++i) {
      const KeyLocks::Guard guard = locks_.lock("k");
      hold(LockMode::kExclusive);
    }
  }
};
TEST(ExploreLocks, LockAgainstLock) { expect_holds<LockAgainstLock>("LockTable"); }
TEST(ExploreLocks, LockAgainstLockOfThreeThreads) {
  expect_holds<LockAgainstLock>("LockTable", {.threads = 3});
}

class SharedAgainstExclusive final : public LockScenario {
 public:
  void run(int thread) override {
    const LockMode mode = thread == 0 ? LockMode::kExclusive : LockMode::kShared;
    const KeyLocks::Guard guard = locks_.lock("k", mode);
    hold(mode);
  }
};
TEST(ExploreLocks, SharedAgainstExclusive) {
  expect_holds<SharedAgainstExclusive>("LockTable", {.threads = 3});
}

// A holder that shares the key locks it exclusively too. If two do, one of them is told that it never could.
class Upgrade final : public LockScenario {
 public:
  void run(int) override {
    KeyLocks::Guard shared = locks_.lock("k", LockMode::kShared);
    try {
      const KeyLocks::Guard exclusive = locks_.lock("k");
      hold(LockMode::kExclusive);
      ++upgraded_;
    } catch (const Exception& exception) {
      require(exception.error().code == ErrorCode::kWaitCycle, "another error than a cycle");
    }
  }
  void check() override {
    LockScenario::check();
    require(upgraded_ >= 1, "neither was let through");
  }

 private:
  int upgraded_ = 0;
};
TEST(ExploreLocks, UpgradeAgainstUpgrade) { expect_holds<Upgrade>("LockTable"); }

// A waiter that gives up leaves the line, and those behind it go on.
class GivesUp final : public LockScenario {
 public:
  void run(int thread) override {
    if (thread == 1) return hold_or_give_up();
    const KeyLocks::Guard guard =
        locks_.lock("k", thread == 0 ? LockMode::kShared : LockMode::kExclusive);
    hold(thread == 0 ? LockMode::kShared : LockMode::kExclusive);
  }
};
TEST(ExploreLocks, AWaiterGivesUp) {
  expect_holds<GivesUp>("LockTable", {.threads = 3, .times_out_any_time = true});
}

// A writer that gives up lets the reader behind it in: the first reader keeps the key until then.
class WriterGivesUp final : public LockScenario {
 public:
  void run(int thread) override {
    if (thread == 1) return hold_or_give_up();
    const KeyLocks::Guard guard = locks_.lock("k", LockMode::kShared);
    ++readers_;
    changed();
    wait_until("the other reader", [this] { return readers_ == 2; });
  }

 private:
  int readers_ = 0;
};
TEST(ExploreLocks, AWriterGivesUpBetweenTwoReaders) {
  expect_holds<WriterGivesUp>("LockTable", {.threads = 3, .times_out_any_time = true});
}

// Two keys in two orders: one thread gets both, the other is told of the cycle.
class TwoOrders final : public LockScenario {
 public:
  void run(int thread) override {
    try {
      const KeyLocks::Guard first = locks_.lock(thread == 0 ? "a" : "b");
      const KeyLocks::Guard second = locks_.lock(thread == 0 ? "b" : "a");
      ++got_both_;
    } catch (const Exception& exception) {
      require(exception.error().code == ErrorCode::kWaitCycle, "another error than a cycle");
    }
  }
  void check() override {
    LockScenario::check();
    require(got_both_ >= 1, "both were refused");
  }

 private:
  int got_both_ = 0;
};
TEST(ExploreLocks, TwoKeysInTwoOrders) { expect_holds<TwoOrders>("LockTable"); }

// A coroutine outside of tasks holds the lock. Whoever waits for it asks the coroutine's scheduler for a free thread,
// and the scheduler may be destroyed as soon as sync_wait() has returned.
class EndOfACoroutineWhileItsSchedulerIsAsked final : public LockScenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      sync_wait(scheduler_, hold_in_coroutine());
      scheduler_.is_destroyed = true;
      return;
    }
    // With so many locks the wait is checked by a search.
    std::vector<KeyLocks::Guard> others;
    {
      const Uninterrupted all;
      for (int i = 0; i < 5; ++i) others.push_back(locks_.lock(std::to_string(i)));
    }
    wait_until("the coroutine", [this] { return is_held_; });
    const KeyLocks::Guard guard = locks_.lock("k");
    hold(LockMode::kExclusive);
  }

 private:
  // The coroutine goes on without its threads.
  class MortalScheduler final : public Scheduler {
   public:
    void post(Runnable&) override { require(false, "the coroutine was suspended"); }
    TimePoint now() const override { return explore::now(); }
    void add_timer(Timer&, TimePoint) override { require(false, "a timer was added"); }
    bool cancel_timer(Timer&) override { return false; }
    bool wait_for_turns_in_progress(const TimePoint*) override { return true; }
    std::size_t max_threads() const override {
      yield();
      require(!is_destroyed, "the scheduler was asked after the end of its last coroutine");
      return 1;
    }
    bool is_destroyed = false;
  };
  Task<void> hold_in_coroutine() {
    const KeyLocks::Guard guard = locks_.lock("k");
    is_held_ = true;
    changed();
    hold(LockMode::kExclusive);
    co_return;
  }

  MortalScheduler scheduler_;
  bool is_held_ = false;
};
TEST(ExploreLocks, EndOfACoroutineWhileItsSchedulerIsAsked) {
  expect_holds<EndOfACoroutineWhileItsSchedulerIsAsked>("WaitGraph");
}

}  // namespace
}  // namespace keyway::explore
