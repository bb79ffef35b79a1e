// Tasks that wait: for each other, for locks, with a timeout, while limits change and while the executor is shut down.
#include <array>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "keyway/key_locks.h"
#include "keyway/rest.h"
#include "keyway/task.h"
#include "keyway/when_any.h"

namespace keyway::explore {
namespace {

constexpr ScenarioOptions kThreeThreads{.threads = 3};

// The wait within a task may time out at any moment; the permits come back either way.
class JoinWithATimeout final : public GroupScenario {
 public:
  JoinWithATimeout() : GroupScenario(1, {.global_max_in_flight = 1}) {}
  void client(int) override {
    auto outer = executor().submit("a", "outer", [this] {
      auto inner =
          executor().submit("b", "inner", [this] { const Gauge::Inside inside(gauge_, 1); });
      (void)inner.join_for(std::chrono::seconds(1));
      const Gauge::Inside inside(gauge_, 1);
    });
    (void)outer.join();
  }
  void finish() override { executor().drain(); }

 private:
  Gauge gauge_;
};
TEST(ExploreWaits, AJoinWithinATaskTimesOut) {
  expect_holds<JoinWithATimeout>("TaskWaits", {.threads = 3, .times_out_any_time = true});
}

// The limit goes down while a task of the group waits for another one of it.
class LimitGoesDownDuringAWait final : public GroupScenario {
 public:
  LimitGoesDownDuringAWait() : GroupScenario(2, policy()) {}
  void client(int number) override {
    if (number == 1) {
      (void)executor().set_limit("g", 1);
      return;
    }
    auto outer = executor().submit("g", "outer", [this] {
      const Gauge::Inside before(gauge_, 2);
      auto inner =
          executor().submit("g", "inner", [this] { const Gauge::Inside inside(gauge_, 2); });
      (void)inner.join();
    });
    (void)outer.join();
  }

 private:
  static GroupPolicy policy() {
    GroupPolicy policy;
    policy.groups["g"].max_concurrency = 2;
    return policy;
  }
  Gauge gauge_;
};
TEST(ExploreWaits, TheLimitGoesDownDuringAWait) {
  expect_holds<LimitGoesDownDuringAWait>("TaskWaits", {.threads = 4});
}

// Two tasks of two serial groups that wait for one of the other's group: one of the waits closes a cycle.
class CrossedWaits final : public GroupScenario {
 public:
  CrossedWaits() : GroupScenario(1, {}) {}
  void client(int) override {
    auto a = executor().submit("a", "1", [this] { wait_for("b"); });
    auto b = executor().submit("b", "1", [this] { wait_for("a"); });
    (void)a.join();
    (void)b.join();
  }

 private:
  void wait_for(const char* key) {
    auto inner = executor().submit(key, "inner", [] {});
    try {
      (void)inner.join();
    } catch (const Exception& exception) {
      require(exception.error().code == ErrorCode::kWaitCycle, "another error than a cycle");
    }
  }
  void finish() override { executor().drain(); }
};
TEST(ExploreWaits, TwoGroupsThatWaitForEachOther) {
  expect_holds<CrossedWaits>("TaskWaits", kThreeThreads);
}

// Two tasks that wait for each other: the second wait is refused, and both tasks end.
class TasksThatWaitForEachOther final : public GroupScenario {
 public:
  TasksThatWaitForEachOther() : GroupScenario(1, {}) {}
  void client(int) override {
    {
      const Uninterrupted both;
      a_ = executor().submit("a", "1", [this] { wait_for(b_); });
      b_ = executor().submit("b", "1", [this] { wait_for(a_); });
    }
    executor().drain();
    require(refused_ == 1, "not one of the two waits was refused");
  }

 private:
  void wait_for(TaskHandle<void>& other) {
    try {
      (void)other.join();
    } catch (const Exception& exception) {
      require(exception.error().code == ErrorCode::kWaitCycle, "another error than a cycle");
      ++refused_;
    }
  }
  TaskHandle<void> a_;
  TaskHandle<void> b_;
  int refused_ = 0;
};
TEST(ExploreWaits, TwoTasksThatWaitForEachOther) {
  expect_holds<TasksThatWaitForEachOther>("TaskWaits", kThreeThreads);
}

class ShutdownDuringAWait final : public GroupScenario {
 public:
  ShutdownDuringAWait() : GroupScenario(2, {.global_max_in_flight = 1}) {}
  void client(int number) override {
    if (number == 1) return executor().shutdown();
    try {
      auto outer = executor().submit("a", "outer", [this] {
        try {
          auto inner =
              executor().submit("b", "inner", [this] { const Gauge::Inside inside(gauge_, 1); });
          (void)inner.join();
        } catch (const Exception&) {
        }
        const Gauge::Inside inside(gauge_, 1);
      });
      (void)outer.join();
    } catch (const Exception&) {
    }
  }

 private:
  Gauge gauge_;
};
TEST(ExploreWaits, ShutdownDuringAWait) {
  expect_holds<ShutdownDuringAWait>("TaskWaits", {.threads = 4});
}

class GroupIsPausedDuringAWait final : public GroupScenario {
 public:
  GroupIsPausedDuringAWait() : GroupScenario(2, {.global_max_in_flight = 2}) {}
  void client(int number) override {
    if (number == 1) {
      executor().pause_group("g");
      executor().resume_group("g");
      return;
    }
    auto outer = executor().submit("g", "outer", [this] {
      auto inner =
          executor().submit("g", "inner", [this] { const Gauge::Inside inside(gauge_, 1); });
      (void)inner.join();
      const Gauge::Inside inside(gauge_, 1);
    });
    (void)outer.join();
  }

 private:
  Gauge gauge_;
};
TEST(ExploreWaits, AGroupIsPausedDuringAWait) {
  expect_holds<GroupIsPausedDuringAWait>("TaskWaits", {.threads = 4});
}

// Coroutines lock a key; one of them is cancelled, perhaps while it waits in line.
class LockAsyncAgainstCancel final : public GroupScenario {
 public:
  LockAsyncAgainstCancel() : GroupScenario(1, {}) {}
  void client(int) override {
    auto a = executor().submit("a", "1", [this]() -> Task<int> { return hold(); });
    auto b = executor().submit("b", "1", [this]() -> Task<int> { return hold(); });
    {
      // The standard library waits for a stop callback that runs in another thread.
      const Uninterrupted callbacks;
      b.cancel();
    }
    require(a.join().ok(), "the other one was disturbed");
    (void)b.join();
    require(locks_.active_lock_count() == 0, "a lock is left over");
  }

 private:
  Task<int> hold() {
    const KeyLocks::Guard guard = co_await locks_.lock_async("k");
    const Gauge::Inside inside(gauge_, 1);
    co_return 1;
  }
  KeyLocks locks_;
  Gauge gauge_;
};
TEST(ExploreWaits, LockAsyncAgainstCancel) {
  expect_holds<LockAsyncAgainstCancel>("LockTable", kThreeThreads);
}

// A coroutine that rests gives its global permit to others.
class Rests final : public GroupScenario {
 public:
  Rests() : GroupScenario(1, {.global_max_in_flight = 1}) {}
  void client(int) override {
    auto a = executor().submit("a", "1", [this]() -> Task<int> {
      {
        const Gauge::Inside inside(gauge_, 1);
      }
      co_await rest_for(std::chrono::seconds(1));
      const Gauge::Inside inside(gauge_, 1);
      co_return 1;
    });
    auto b = executor().submit("b", "1", [this] { const Gauge::Inside inside(gauge_, 1); });
    require(a.join().ok(), "it did not end");
    (void)b.join();
  }

 private:
  Gauge gauge_;
};
TEST(ExploreWaits, ARestGivesTheGlobalPermitBack) {
  expect_holds<Rests>("TaskWaits", {.threads = 3, .times_out_any_time = true});
}

// Costs: the inner task needs more permits than are free while the outer one waits.
class WaitForACostlyTask final : public GroupScenario {
 public:
  WaitForACostlyTask() : GroupScenario(1, policy()) {}
  void client(int) override {
    auto outer = executor().submit("g", "outer", [this] {
      auto inner = executor().submit("g", TaskOptions{.cost = 2},
                                     [this] { const Gauge::Inside inside(gauge_, 1); });
      (void)inner.join();
    });
    auto other = executor().submit("g", TaskOptions{.priority = 1}, [] { yield(); });
    (void)outer.join();
    (void)other.join();
  }

 private:
  static GroupPolicy policy() {
    GroupPolicy policy;
    policy.groups["g"].max_concurrency = 2;
    return policy;
  }
  Gauge gauge_;
};
TEST(ExploreWaits, AWaitForATaskThatCostsMore) {
  expect_holds<WaitForACostlyTask>("TaskWaits", {.threads = 4});
}

// One branch of a task begins a wait that is refused, because its target waits for the task. Meanwhile the other branch
// ends, and must not give a permit back for the refused wait.
class ARefusedWaitWhileABranchEnds final : public GroupScenario {
 public:
  ARefusedWaitWhileABranchEnds() : GroupScenario(1, {.default_group = {.max_concurrency = 2}}) {}
  void client(int) override {
    {
      const Uninterrupted both;
      task_ = executor().submit("g", "task", [this]() -> Task<void> {
        co_await when_all(wait_for(target_), sleep_for_a_while());
      });
      target_ = executor().submit("g", "target", [this] { return wait_for(task_); });
    }
    executor().drain();
    require(refused_ == 1, "not one of the two waits was refused");
    require(executor().group_stats("g").running == 0, "a permit was given back twice, or never");
  }

 private:
  Task<void> sleep_for_a_while() { co_await sleep_for(std::chrono::seconds(1)); }
  Task<void> wait_for(TaskHandle<void>& other) {
    co_await sleep_for_a_while();  // goes on beside the other branch
    try {
      (void)co_await other;
    } catch (const Exception& exception) {
      require(exception.code() == ErrorCode::kWaitCycle, "another error than a cycle");
      ++refused_;
    }
  }

  TaskHandle<void> task_;
  TaskHandle<void> target_;
  int refused_ = 0;
};
TEST(ExploreWaits, ARefusedWaitGivesNothingBackWhileAnotherBranchEnds) {
  expect_holds<ARefusedWaitWhileABranchEnds>("TaskWaits",
                                             {.threads = 3, .times_out_any_time = true});
}

// Three branches, two of which wait for tasks of other groups.
template <int kGlobalLimit>
class BranchesOfSeveralGroups final : public GroupScenario {
 public:
  BranchesOfSeveralGroups() : GroupScenario(1, policy()) {}
  void client(int) override {
    auto outer = executor().submit("g", "outer", [this]() -> Task<int> {
      co_await when_all(branch("a"), branch("b"), branch("g"));
      const Gauge::Inside inside(gauge_, kInside);
      co_return 1;
    });
    require(outer.join().ok(), "it did not end");
  }

 private:
  static constexpr int kInside = kGlobalLimit > 0 ? kGlobalLimit : 4;

  static GroupPolicy policy() {
    return kGlobalLimit > 0 ? GroupPolicy{.global_max_in_flight = kGlobalLimit} : GroupPolicy{};
  }
  Task<int> branch(const char* key) {
    auto inner =
        executor().submit(key, "inner", [this] { const Gauge::Inside inside(gauge_, kInside); });
    (void)co_await inner;
    co_return 1;
  }
  Gauge gauge_;
};
TEST(ExploreWaits, BranchesThatWaitForOtherGroups) {
  expect_holds<BranchesOfSeveralGroups<1>>("TaskWaits", kThreeThreads);
}
TEST(ExploreWaits, BranchesThatWaitForOtherGroupsWithoutAGlobalLimit) {
  expect_holds<BranchesOfSeveralGroups<0>>("TaskWaits", kThreeThreads);
}

// ---- several waits of one task, several returns to one lane

// The first of two waits ends the other one. The task has its permits again, once.
template <int kGlobalLimit>
class FirstOfTwoWaits final : public GroupScenario {
 public:
  FirstOfTwoWaits() : GroupScenario(1, policy()) {}
  void client(int) override {
    auto outer = executor().submit("g", "outer", [this]() -> Task<int> {
      co_await when_any(branch("g"), branch("h"));
      const Gauge::Inside inside(gauge_, kInside);
      co_return 1;
    });
    require(outer.join().ok(), "it did not end");
    executor().drain();
    require(executor().stats().running == 0, "a permit was given back twice, or never");
  }

 private:
  static constexpr int kInside = kGlobalLimit > 0 ? kGlobalLimit : 2;

  static GroupPolicy policy() {
    return kGlobalLimit > 0 ? GroupPolicy{.global_max_in_flight = kGlobalLimit} : GroupPolicy{};
  }
  Task<int> branch(const char* key) {
    auto inner =
        executor().submit(key, "inner", [this] { const Gauge::Inside inside(gauge_, kInside); });
    (void)co_await inner;
    co_return 1;
  }
  Gauge gauge_;
};
TEST(ExploreWaits, TheFirstOfTwoWaitsEndsTheOther) {
  expect_holds<FirstOfTwoWaits<0>>("TaskWaits", kThreeThreads);
}
TEST(ExploreWaits, TheFirstOfTwoWaitsEndsTheOtherUnderAGlobalLimit) {
  expect_holds<FirstOfTwoWaits<1>>("TaskWaits", kThreeThreads);
}

// Two tasks of a group give its permits to what they wait for, and return while others stand in line.
template <int kGlobalLimit>
class TwoTasksReturn final : public GroupScenario {
 public:
  TwoTasksReturn() : GroupScenario(1, policy()) {}
  void client(int) override {
    std::vector<TaskHandle<int>> handles;
    {
      const Uninterrupted all;
      for (int i = 0; i < 2; ++i) {
        handles.push_back(executor().submit("g", "outer", [this] { return waits(); }));
      }
      handles.push_back(executor().submit("g", "other", [this] { return runs(); }));
    }
    for (auto& handle : handles) require(handle.join().ok(), "it did not end");
    require(executor().stats().running == 0, "a permit was given back twice, or never");
  }

 private:
  static GroupPolicy policy() {
    GroupPolicy policy;
    policy.groups["g"].max_concurrency = 2;
    if (kGlobalLimit > 0) policy.global_max_in_flight = kGlobalLimit;
    return policy;
  }
  int runs() {
    const Gauge::Inside inside(gauge_, kGlobalLimit > 0 ? kGlobalLimit : 2);
    return 1;
  }
  Task<int> waits() {
    auto inner = executor().submit("g", "inner", [this] { return runs(); });
    (void)co_await inner;
    co_return runs();
  }
  Gauge gauge_;
};
TEST(ExploreWaits, TwoTasksReturnToTheirLane) {
  expect_holds<TwoTasksReturn<0>>("TaskWaits", kThreeThreads);
}
TEST(ExploreWaits, TwoTasksReturnToTheirLaneUnderAGlobalLimit) {
  expect_holds<TwoTasksReturn<1>>("TaskWaits", kThreeThreads);
}

}  // namespace
}  // namespace keyway::explore
