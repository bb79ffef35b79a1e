// Limits and waits of a whole GroupExecutor, through its public headers: no limit is exceeded, no task is lost, every
// wait ends.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "groups/group_engine.h"
#include "keyway/task.h"

namespace keyway::explore {
namespace {

constexpr ScenarioOptions kThreeThreads{.threads = 3};

// Two clients submit to one serial group and wait.
class OneSerialGroup : public GroupScenario {
 public:
  OneSerialGroup() : GroupScenario(2, {}) {}
  void client(int number) override {
    auto first = executor().submit("g", "1", [this, number] { return task(number, 0); });
    auto second = executor().submit("g", "2", [this, number] { return task(number, 1); });
    require(second.join().value() == 1, "a wrong result");
    require(first.join().value() == 0, "a wrong result");
  }
  void finish() override {
    const GroupStats stats = executor().stats();
    require(stats.succeeded == 4 && stats.running == 0 && stats.waiting == 0,
            "the counts are wrong");
  }

 private:
  int task(int client, int number) {
    const Gauge::Inside inside(gauge_, 1);
    require(next_[static_cast<std::size_t>(client)]++ == number, "not in the order of submission");
    return number;
  }
  Gauge gauge_;
  std::array<int, 2> next_{};
};
TEST(ExploreGroups, OneSerialGroup) {
  expect_holds<OneSerialGroup>("GroupExecutor", kThreeThreads);
}
TEST(ExploreGroups, OneSerialGroupOnTwoThreads) {
  expect_holds<OneSerialGroup>("GroupExecutor", {.threads = 4});
}

// Several groups under a global limit, in all three orders of the gate.
template <int kOrder>
class UnderAGlobalLimit final : public GroupScenario {
 public:
  UnderAGlobalLimit() : GroupScenario(1, policy()) {}
  void client(int) override {
    auto a = executor().submit("a", "1", [this] { task(); });
    auto b = executor().submit("b", "1", [this] { task(); });
    auto c = executor().submit("c", "1", [this] { task(); });
    (void)a.join();
    (void)b.join();
    (void)c.join();
  }

 private:
  static GroupPolicy policy() {
    GroupPolicy policy{.global_max_in_flight = 1};
    policy.oldest_first = kOrder == 1;
    if (kOrder == 2) policy.groups["a"].weight = 2;
    return policy;
  }
  void task() { const Gauge::Inside inside(gauge_, 1); }
  Gauge gauge_;
};
TEST(ExploreGroups, GlobalLimitInOrderOfArrival) {
  expect_holds<UnderAGlobalLimit<0>>("GlobalGate", kThreeThreads);
}
TEST(ExploreGroups, GlobalLimitOldestFirst) {
  expect_holds<UnderAGlobalLimit<1>>("GlobalGate", kThreeThreads);
}
TEST(ExploreGroups, GlobalLimitByShares) {
  expect_holds<UnderAGlobalLimit<2>>("GlobalGate", kThreeThreads);
}

// Groups with several tasks each: a lane stands in line behind another one whose turn is on its way.
class SeveralTasksByShares final : public GroupScenario {
 public:
  SeveralTasksByShares() : GroupScenario(1, policy()) {}
  void client(int) override {
    std::vector<TaskHandle<void>> handles;
    for (const char* key : {"a", "b", "a", "b"}) {
      handles.push_back(
          executor().submit(key, "1", [this] { const Gauge::Inside inside(gauge_, 2); }));
    }
    handles[0].cancel();  // a turn that finds no task
    for (auto& handle : handles) (void)handle.join();
  }

 private:
  static GroupPolicy policy() {
    return {.groups = {{"a", {.max_concurrency = 2, .weight = 3}}},
            .default_group = {.max_concurrency = 3},
            .global_max_in_flight = 2};
  }
  Gauge gauge_;
};
TEST(ExploreGroups, SeveralTasksOfEachGroupByShares) {
  expect_holds<SeveralTasksByShares>("GlobalGate", {.threads = 3});
}

// The gate looks at a lane's oldest task while the task that has the one permit asks for the counts.
class StatsWhileOldestFirst final : public GroupScenario {
 public:
  StatsWhileOldestFirst() : GroupScenario(1, {.global_max_in_flight = 1, .oldest_first = true}) {}
  void client(int) override {
    auto a = executor().submit("a", "1", [this] { executor().stats(); });
    auto b = executor().submit("b", "1", [] {});
    (void)a.join();
    (void)b.join();
  }
};
TEST(ExploreGroups, StatsWhileTheGateLooksForTheOldest) {
  expect_holds<StatsWhileOldestFirst>("GlobalGate", kThreeThreads);
}

// A task lowers the global limit while another group's task runs, and the next task of its own group could begin in the same turn.
class LimitLoweredWithinATurn final : public GroupScenario {
 public:
  LimitLoweredWithinATurn() : GroupScenario(1, {.global_max_in_flight = 2}) {}
  void client(int) override {
    auto other = executor().submit("b", "1", [this] {
      runs_ = true;
      began_.set();
      lowered_.wait("the lower limit");
      yield();
      runs_ = false;
    });
    auto lowers = executor().submit("a", "1", [this] {
      began_.wait("the other group's task");
      (void)executor().set_global_limit(1);
      lowered_.set();
    });
    auto next = executor().submit("a", "2", [this] {
      require(!runs_, "a task began beside another one after the limit was 1");
    });
    (void)other.join();
    (void)lowers.join();
    (void)next.join();
  }

 private:
  Event began_, lowered_;
  bool runs_ = false;
};
TEST(ExploreGroups, ALowerGlobalLimitHoldsWithinATurn) {
  expect_holds<LimitLoweredWithinATurn>("GlobalGate", kThreeThreads);
}

// Three threads of the scheduler could run more than the limit. A task that is submitted when the limit is down runs alone.
class GlobalLimitChanges final : public GroupScenario {
 public:
  GlobalLimitChanges() : GroupScenario(2, {.global_max_in_flight = 1}) {}
  void client(int number) override {
    if (number == 1) {
      (void)executor().set_global_limit(2);
      (void)executor().set_global_limit(1);
      (void)executor().submit("d", "1", [this] { const Gauge::Inside inside(gauge_, 1); }).join();
      return;
    }
    std::vector<TaskHandle<void>> handles;
    for (const char* key : {"a", "b", "c"}) {
      handles.push_back(
          executor().submit(key, "1", [this] { const Gauge::Inside inside(gauge_, 2); }));
    }
    for (auto& handle : handles) (void)handle.join();
  }

 private:
  Gauge gauge_;
};
TEST(ExploreGroups, TheGlobalLimitChanges) {
  expect_holds<GlobalLimitChanges>("GlobalGate", {.threads = 5});
}

class LimitChanges final : public GroupScenario {
 public:
  LimitChanges() : GroupScenario(2, {}) {}
  void client(int number) override {
    if (number == 1) {
      (void)executor().set_limit("g", 2);
      (void)executor().set_limit("g", 1);
      auto alone = executor().submit("g", "1", [this] { const Gauge::Inside inside(gauge_, 1); });
      executor().evict_group("g");
      (void)alone.join();
      return;
    }
    std::vector<TaskHandle<void>> handles;
    for (int i = 0; i < 3; ++i) {
      handles.push_back(
          executor().submit("g", "1", [this] { const Gauge::Inside inside(gauge_, 2); }));
    }
    for (auto& handle : handles) (void)handle.join();
  }

 private:
  Gauge gauge_;
};
TEST(ExploreGroups, AGroupsLimitChanges) {
  expect_holds<LimitChanges>("GroupExecutor", {.threads = 5});
}

// A task waits for one of another group, under a global limit of one: its permit goes there and comes back.
class NestedJoin : public GroupScenario {
 public:
  NestedJoin() : GroupScenario(1, {.global_max_in_flight = 1}) {}
  void client(int) override {
    auto outer = executor().submit("a", "outer", [this] {
      auto inner =
          executor().submit("b", "inner", [this] { const Gauge::Inside inside(gauge_, 1); });
      (void)inner.join();
      const Gauge::Inside inside(gauge_, 1);
    });
    auto other = executor().submit("c", "other", [this] { const Gauge::Inside inside(gauge_, 1); });
    (void)outer.join();
    (void)other.join();
  }

 private:
  Gauge gauge_;
};
TEST(ExploreGroups, AJoinWithinATaskGivesTheGlobalPermitBack) {
  expect_holds<NestedJoin>("TaskWaits", kThreeThreads);
}
TEST(ExploreGroups, AJoinWithinATaskGivesTheGlobalPermitBackOnThreeThreads) {
  expect_holds<NestedJoin>("TaskWaits", {.threads = 4});
}

// A task waits for one behind it in its own serial group.
class NestedJoinInOneGroup : public GroupScenario {
 public:
  NestedJoinInOneGroup() : GroupScenario(1, {}) {}
  void client(int) override {
    auto outer = executor().submit("g", "outer", [this] {
      auto inner =
          executor().submit("g", "inner", [this] { const Gauge::Inside inside(gauge_, 1); });
      (void)inner.join();
      const Gauge::Inside inside(gauge_, 1);
    });
    auto other = executor().submit("g", "other", [this] { const Gauge::Inside inside(gauge_, 1); });
    (void)outer.join();
    (void)other.join();
  }

 private:
  Gauge gauge_;
};
TEST(ExploreGroups, AJoinOfATaskBehindItInTheSameGroup) {
  expect_holds<NestedJoinInOneGroup>("TaskWaits", kThreeThreads);
}

// A coroutine whose branches wait for tasks of its own group.
template <int kGlobalLimit>
class WhenAllBranches : public GroupScenario {
 public:
  WhenAllBranches() : GroupScenario(1, policy()) {}
  void client(int) override {
    auto outer = executor().submit("g", "outer", [this]() -> Task<int> {
      co_await when_all(branch(), branch());
      co_return 1;
    });
    require(outer.join().value() == 1, "a wrong result");
  }

 private:
  static GroupPolicy policy() {
    return kGlobalLimit > 0 ? GroupPolicy{.global_max_in_flight = kGlobalLimit} : GroupPolicy{};
  }
  Task<int> branch() {
    auto inner = executor().submit("g", "inner", [] {
      yield();
      return 1;
    });
    GroupResult<int> result = co_await inner;
    auto second = executor().submit("g", "second", [] {
      yield();
      return 1;
    });
    GroupResult<int> next = co_await second;
    co_return result.value() + next.value();
  }
};
TEST(ExploreGroups, BranchesThatWaitForTasksOfTheirOwnGroup) {
  expect_holds<WhenAllBranches<0>>("TaskWaits", kThreeThreads);
}
TEST(ExploreGroups, BranchesThatWaitUnderAGlobalLimit) {
  expect_holds<WhenAllBranches<1>>("TaskWaits", kThreeThreads);
}

// The executor is destroyed as soon as its last task was joined, while other threads are on their way out of it.
template <class S>
class DestroyedAtOnce final : public S {
 public:
  DestroyedAtOnce() { this->destroys_at_once_ = true; }
};
TEST(ExploreGroups, DestroyedAfterTheLastJoin) {
  expect_holds<DestroyedAtOnce<OneSerialGroup>>("GroupExecutor", kThreeThreads);
}
TEST(ExploreGroups, DestroyedAfterTheLastJoinUnderAGlobalLimit) {
  expect_holds<DestroyedAtOnce<NestedJoin>>("GroupExecutor", kThreeThreads);
}
TEST(ExploreGroups, DestroyedAfterAJoinWithinATask) {
  expect_holds<DestroyedAtOnce<NestedJoinInOneGroup>>("GroupExecutor", kThreeThreads);
}
TEST(ExploreGroups, DestroyedAfterWaitsOfBranches) {
  expect_holds<DestroyedAtOnce<WhenAllBranches<0>>>("GroupExecutor", kThreeThreads);
}

// One thread joins a task while another one destroys its executor: the join wakes when the executor is gone.
class JoinOutlivesTheExecutor final : public Scenario {
 public:
  JoinOutlivesTheExecutor() {
    const Uninterrupted setup;
    executor_.emplace(GroupPolicy{}, scheduler_);
    handle_ = executor_->submit("g", "1", [] { return 1; });
  }
  void run(int thread) override {
    if (thread == 2) return scheduler_.work();
    if (thread == 0) {
      try {
        require(handle_.join().value() == 1, "a wrong result");
      } catch (const RejectedError&) {
      }
      return;
    }
    executor_.reset();
    scheduler_.stop();
  }

 private:
  ExploredScheduler scheduler_;
  std::optional<GroupExecutor> executor_;
  TaskHandle<int> handle_;
};
TEST(ExploreGroups, AJoinWakesWhenItsExecutorIsGone) {
  expect_holds<JoinOutlivesTheExecutor>("GroupExecutor", kThreeThreads);
}

// The lane of the task is idle before the task's turn shares the result with the follower, and close() may see that. The
// engine has a scheduler of its own, so turns are no uses of it.
class ClosedWhileATurnSharesItsResult final : public Scenario {
 public:
  ClosedWhileATurnSharesItsResult() {
    const Uninterrupted setup;
    engine_ = std::make_unique<GroupEngine>(GroupPolicy{}, scheduler_, /*shared=*/false);
    for (TaskHandle<int>& handle : handles_) {
      auto& task = keyway::detail::make_task(
          *engine_, 2, "g", TaskOptions{.id = "same", .conflation = Conflation::kShareResult},
          [this] {
            began_ = true;
            changed();
            return 1;
          });
      handle = keyway::detail::HandleAccess::make<int>(task);
      (void)engine_->enqueue(task, LaneTable::hash("g"), nullptr);
    }
  }
  void run(int thread) override {
    if (thread > 0) return scheduler_.work();
    wait_until("the start of the task", [this] { return began_; });
    engine_->close();
    engine_.reset();
    scheduler_.stop();
  }
  void check() override {
    for (const TaskHandle<int>& handle : handles_) require(handle.is_done(), "it has no end");
  }

 private:
  ExploredScheduler scheduler_;
  std::unique_ptr<GroupEngine> engine_;
  std::array<TaskHandle<int>, 2> handles_;
  bool began_ = false;
};
TEST(ExploreGroups, AnEngineIsClosedWhileATurnSharesItsResult) {
  expect_holds<ClosedWhileATurnSharesItsResult>("GroupExecutor");
}

// At one moment, no more tasks start than the bucket had tokens.
class RateOfAGroup final : public GroupScenario {
 public:
  RateOfAGroup() : GroupScenario(1, policy()) {}
  void client(int) override {
    std::vector<TaskHandle<void>> handles;
    for (int i = 0; i < 2; ++i) {
      handles.push_back(executor().submit("g", "1", [this] {
        const TimePoint now = scheduler().now();
        if (now != since_) started_ = 0;
        since_ = now;
        require(++started_ <= 1, "more tasks started than the rate allows");
        yield();
      }));
    }
    for (auto& handle : handles) (void)handle.join();
  }

 private:
  static GroupPolicy policy() {
    GroupPolicy policy;
    policy.groups["g"] = {.max_concurrency = 3, .rate = RateLimit{.per_second = 1, .burst = 1}};
    return policy;
  }
  TimePoint since_{};
  int started_ = 0;
};
TEST(ExploreGroups, NeverMoreThanTheRateAllows) {
  expect_holds<RateOfAGroup>("TokenBucket", {.threads = 3, .yields_after_unlock = true});
}

}  // namespace
}  // namespace keyway::explore
