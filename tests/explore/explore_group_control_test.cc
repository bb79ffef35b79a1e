// A GroupExecutor that is paused, drained and shut down while tasks come, run and end.
#include <chrono>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "groups/quiet_watch.h"

namespace keyway::explore {
namespace {

constexpr ScenarioOptions kThreeThreads{.threads = 3};

// ---- pause

// What happened before resume() happens before what starts after it.
class ResumeOrders final : public GroupScenario {
 public:
  ResumeOrders() : GroupScenario(2, {}) {}
  void client(int number) override {
    if (number == 0) {
      executor().pause();
      paused_.set();
      data_.write(42);
      executor().resume();
      return;
    }
    paused_.wait("the pause");
    auto task =
        executor().submit("g", "1", [this] { require(data_.read() == 42, "a stale value"); });
    (void)task.join();
  }

 private:
  Event paused_;
  Data<int> data_;
};
TEST(ExploreGroupControl, WhatIsWrittenBeforeResumeIsSeenByWhatStartsAfterIt) {
  expect_holds<ResumeOrders>("GroupExecutor", kThreeThreads);
}

// A task that began before pause(), and waits for another that began too, ends while the executor is paused.
class PauseDuringANestedWait final : public GroupScenario {
 public:
  PauseDuringANestedWait() : GroupScenario(1, {.global_max_in_flight = 1}) {}
  void client(int) override {
    auto outer = executor().submit("a", "outer", [this] {
      auto inner = executor().submit("b", "inner", [this] {
        inner_began_.set();
        yield();
      });
      (void)inner.join();
    });
    auto other = executor().submit("c", "other", [] {});
    inner_began_.wait("the inner task's start");
    executor().pause();
    (void)outer.join();
    executor().resume();
    (void)other.join();
  }

 private:
  Event inner_began_;
};
TEST(ExploreGroupControl, ATaskThatBeganBeforeThePauseComesBackThroughTheGate) {
  expect_holds<PauseDuringANestedWait>("GlobalGate", kThreeThreads);
}

// The same within one group: the task comes back to its lane.
class PauseDuringAWaitForTheSameGroup final : public GroupScenario {
 public:
  PauseDuringAWaitForTheSameGroup() : GroupScenario(1, {}) {}
  void client(int) override {
    auto outer = executor().submit("g", "outer", [this] {
      auto inner = executor().submit("g", "inner", [this] {
        inner_began_.set();
        yield();
      });
      (void)inner.join();
    });
    inner_began_.wait("the inner task's start");
    executor().pause();
    (void)outer.join();
    executor().resume();
  }

 private:
  Event inner_began_;
};
TEST(ExploreGroupControl, ATaskThatBeganBeforeThePauseComesBackToItsLane) {
  expect_holds<PauseDuringAWaitForTheSameGroup>("GroupExecutor", kThreeThreads);
}

class CancelWhilePaused final : public GroupScenario {
 public:
  CancelWhilePaused() : GroupScenario(1, {}) {}
  void client(int) override {
    executor().pause();
    auto task = executor().submit("g", "1", [] {});
    require(task.cancel(), "a waiting task was not cancelled");
    require(executor().drain(), "drain() gave up");
    executor().resume();
  }
};
TEST(ExploreGroupControl, DrainAfterACancelWhilePaused) {
  expect_holds<CancelWhilePaused>("GroupExecutor");
}

// ---- cancel, drain, shutdown

// A task drains another executor, which is without tasks when the drain begins and gets one at the same time. That task
// wants to wait, too: the scheduler has two threads, so the library must refuse one of the two waits.
class DrainOnTheLastThreadButOne final : public GroupScenario {
 public:
  DrainOnTheLastThreadButOne() : GroupScenario(1, {}, /*max_threads=*/2) {
    const Uninterrupted setup;
    drained_.emplace(GroupPolicy{}, scheduler());
    third_.emplace(GroupPolicy{}, scheduler());
  }
  void client(int) override {
    auto drains =
        executor().submit("a", "drains", [this] { or_refused([this] { drained_->drain(); }); });
    auto waits = drained_->submit("b", "waits", [this] {
      auto target = third_->submit("c", "target", [] {});
      or_refused([&] { (void)target.join(); });
    });
    (void)drains.join();
    (void)waits.join();
  }
  void finish() override {
    third_->drain();
    third_.reset();
    drained_.reset();
  }

 private:
  template <class Call>
  static void or_refused(Call call) {
    try {
      call();
    } catch (const Exception& exception) {
      require(exception.code() == ErrorCode::kNoThread, "refused for another reason");
    }
  }
  std::optional<GroupExecutor> drained_;
  std::optional<GroupExecutor> third_;
};
TEST(ExploreGroupControl, ADrainInATaskCountsItsThreadFromTheBeginning) {
  expect_holds<DrainOnTheLastThreadButOne>("TaskWaits", kThreeThreads);
}

// A group is shut down while its task begins: the task either does not run, or is asked to stop.
class ShutdownGroupAgainstStart final : public GroupScenario {
 public:
  ShutdownGroupAgainstStart() : GroupScenario(2, {}) {}
  void client(int number) override {
    if (number == 0) {
      auto task = executor().submit("g", "1", [](const std::stop_token& stop) {
        const std::stop_callback wake(stop, [] { changed(); });
        wait_until("a stop request", [&] { return stop.stop_requested(); });
      });
      submitted_.set();
      (void)task.join();
      return;
    }
    submitted_.wait("the submit");
    executor().shutdown_group("g");
  }

 private:
  Event submitted_;
};
TEST(ExploreGroupControl, ATaskThatBeginsWhileItsGroupIsShutDownIsAskedToStop) {
  expect_holds<ShutdownGroupAgainstStart>("GroupExecutor", kThreeThreads);
}

class CancelAgainstRun final : public GroupScenario {
 public:
  CancelAgainstRun() : GroupScenario(2, {}) { const Uninterrupted setup; }
  void client(int number) override {
    if (number == 0) {
      task_ = executor().submit("g", "1", [this] { ran_ = true; });
      submitted_.set();
      const TaskStatus status = task_.join().status;
      require((status == TaskStatus::kSuccess) == ran_, "the status does not say what happened");
      joined_.set();
    } else {
      submitted_.wait("the submit");
      const bool cancelled = task_.cancel();
      joined_.wait("the join");
      if (cancelled) require(!ran_, "a cancelled task has run");
    }
  }

 private:
  TaskHandle<void> task_;
  Event submitted_;
  Event joined_;
  bool ran_ = false;
};
TEST(ExploreGroupControl, CancelAgainstRun) {
  expect_holds<CancelAgainstRun>("GroupExecutor", kThreeThreads);
}

class ShutdownAgainstSubmit final : public GroupScenario {
 public:
  ShutdownAgainstSubmit() : GroupScenario(2, {.global_max_in_flight = 1}) {}
  void client(int number) override {
    if (number == 1) return executor().shutdown();
    std::vector<TaskHandle<void>> handles;
    try {
      for (const char* key : {"a", "b", "a"}) {
        handles.push_back(executor().submit(key, "1", [] { yield(); }));
      }
    } catch (const Exception&) {
      refused_ = true;
    }
    for (auto& handle : handles) (void)handle.join();
  }

 private:
  bool refused_ = false;
};
TEST(ExploreGroupControl, ShutdownAgainstSubmit) {
  expect_holds<ShutdownAgainstSubmit>("GroupExecutor", kThreeThreads);
}

// A task that has its permit when its group is shut down is asked to stop, also if it has not begun yet.
class ShutdownOfAGroupAgainstStart final : public GroupScenario {
 public:
  ShutdownOfAGroupAgainstStart() : GroupScenario(2, {}) {}
  void client(int number) override {
    if (number == 1) {
      submitted_.wait("the submit");
      executor().shutdown_group("g");
      return;
    }
    auto task = executor().submit("g", "1", [this](std::stop_token stop) {
      const std::stop_callback on_stop(stop, [this] { stopped_.set(); });
      stopped_.wait("the stop request");
    });
    submitted_.set();
    try {
      (void)task.join();
    } catch (const RejectedError&) {
    }
  }

 private:
  Event submitted_;
  Event stopped_;
};
TEST(ExploreGroupControl, ShutdownOfAGroupAgainstStart) {
  expect_holds<ShutdownOfAGroupAgainstStart>("GroupExecutor", kThreeThreads);
}

class DrainAgainstSubmit final : public GroupScenario {
 public:
  DrainAgainstSubmit() : GroupScenario(2, {}) {}
  void client(int number) override {
    if (number == 1) {
      executor().drain();
      return;
    }
    (void)executor().post("a", [this] { ++ran_; });
    (void)executor().post("a", [this] { ++ran_; });
    executor().drain();
    require(ran_ == 2, "drain() returned before the tasks had ended");
  }

 private:
  int ran_ = 0;
};
TEST(ExploreGroupControl, DrainAgainstSubmit) {
  expect_holds<DrainAgainstSubmit>("GroupExecutor", kThreeThreads);
}

// A task without a handle may be freed as soon as it has entered its lane.
class PostedTaskGoesAtOnce final : public GroupScenario {
 public:
  PostedTaskGoesAtOnce() : GroupScenario(2, policy()) {}
  void client(int number) override {
    if (number == 1) {
      (void)executor().set_limit("a-group-with-a-rather-long-name", 2);
      executor().shutdown_group("a-group-with-a-rather-long-name");
      return;
    }
    (void)executor().post("a-group-with-a-rather-long-name", [] {});
    executor().drain();
  }

 private:
  static GroupPolicy policy() {
    GroupPolicy policy;
    policy.resolver = [](std::string_view key) {
      require(key == "a-group-with-a-rather-long-name", "the key of a task that is gone");
      return 1;
    };
    return policy;
  }
};
TEST(ExploreGroupControl, APostedTaskMayBeGoneOnceItIsIn) {
  expect_holds<PostedTaskGoesAtOnce>("GroupExecutor", kThreeThreads);
}

class SharedResult final : public GroupScenario {
 public:
  SharedResult() : GroupScenario(2, {}) {}
  void client(int) override {
    auto task = executor().submit(
        "g", TaskOptions{.id = "same", .conflation = Conflation::kShareResult}, [this] {
          yield();
          return ++ran_;
        });
    GroupResult<int> result = task.join();
    require(result.status == TaskStatus::kSuccess && result.value() >= 1, "no result");
  }
  void check() override { require(ran_ == 1 || ran_ == 2, "it ran too often, or never"); }

 private:
  int ran_ = 0;
};
TEST(ExploreGroupControl, TasksThatShareAResult) {
  expect_holds<SharedResult>("GroupExecutor", kThreeThreads);
}

class WaitsForRoom final : public GroupScenario {
 public:
  WaitsForRoom() : GroupScenario(2, policy()) {}
  void client(int) override {
    for (int i = 0; i < 2; ++i) {
      auto task = executor().try_submit_for("g", std::chrono::hours(1), {},
                                            [this] { const Gauge::Inside inside(gauge_, 1); });
      require(task.ok(), "there was no room within an hour");
    }
  }
  void finish() override { executor().drain(); }

 private:
  static GroupPolicy policy() {
    GroupPolicy policy;
    policy.default_group = {.max_concurrency = 1, .queue_threshold = 0};
    return policy;
  }
  Gauge gauge_;
};
TEST(ExploreGroupControl, SubmittersThatWaitForRoom) {
  expect_holds<WaitsForRoom>("GroupExecutor", kThreeThreads);
}

class ExpiryAgainstStart final : public GroupScenario {
 public:
  ExpiryAgainstStart() : GroupScenario(1, {}) {}
  void client(int) override {
    auto first = executor().submit("g", "first", [] { yield(); });
    auto task =
        executor().submit("g", TaskOptions{.id = "late", .start_within = std::chrono::seconds(1)},
                          [this] { ran_ = true; });
    const TaskStatus status = task.join().status;
    require(status == (ran_ ? TaskStatus::kSuccess : TaskStatus::kExpired),
            "the status does not say what happened");
    (void)first.join();
  }

 private:
  bool ran_ = false;
};
TEST(ExploreGroupControl, ExpiryAgainstStart) {
  expect_holds<ExpiryAgainstStart>("GroupExecutor", {.threads = 3, .times_out_any_time = true});
}

// The time to begin may be over before the task is in its lane: it expires all the same.
class ExpiryBehindATask final : public GroupScenario {
 public:
  ExpiryBehindATask() : GroupScenario(1, {}) {}
  void client(int) override {
    auto first = executor().submit("g", "first", [this] { late_is_over_.wait("the expiry"); });
    auto late =
        executor().submit("g", TaskOptions{.id = "late", .start_within = std::chrono::seconds(1)},
                          [] { require(false, "it began behind a task that had not ended"); });
    require(late.join().status == TaskStatus::kExpired, "it did not expire");
    late_is_over_.set();
    (void)first.join();
  }

 private:
  Event late_is_over_;
};
TEST(ExploreGroupControl, ExpiryBehindATask) {
  expect_holds<ExpiryBehindATask>("GroupExecutor", {.threads = 3, .times_out_any_time = true});
}

class PausesAGroup final : public GroupScenario {
 public:
  PausesAGroup() : GroupScenario(2, {.global_max_in_flight = 2}) {}
  void client(int number) override {
    if (number == 1) {
      executor().pause_group("g");
      executor().resume_group("g");
      return;
    }
    std::vector<TaskHandle<void>> handles;
    for (const char* key : {"g", "h", "g"}) {
      handles.push_back(
          executor().submit(key, "1", [this] { const Gauge::Inside inside(gauge_, 2); }));
    }
    for (auto& handle : handles) (void)handle.join();
  }

 private:
  Gauge gauge_;
};
TEST(ExploreGroupControl, PauseGroupAgainstSubmit) {
  expect_holds<PausesAGroup>("GroupExecutor", kThreeThreads);
}

class KeepsTheNewest final : public GroupScenario {
 public:
  KeepsTheNewest() : GroupScenario(2, {}) {}
  void client(int) override {
    auto task = executor().submit(
        "g", TaskOptions{.id = "same", .conflation = Conflation::kKeepNewest}, [this] {
          yield();
          ++ran_;
        });
    const TaskStatus status = task.join().status;
    succeeded_ += status == TaskStatus::kSuccess ? 1 : 0;
    require(status == TaskStatus::kSuccess || status == TaskStatus::kCancelled, "another status");
  }
  void check() override { require(ran_ == succeeded_ && ran_ >= 1, "the newest did not run"); }

 private:
  int ran_ = 0;
  int succeeded_ = 0;
};
TEST(ExploreGroupControl, TheNewestOfTwoWithOneId) {
  expect_holds<KeepsTheNewest>("GroupExecutor", kThreeThreads);
}

// A queue of all groups together, of which tasks take and give up places.
class GlobalQueue final : public GroupScenario {
 public:
  GlobalQueue() : GroupScenario(2, {.global_max_in_flight = 1, .global_queue_threshold = 1}) {}
  void client(int number) override {
    auto task = executor().try_submit_for(number == 0 ? "a" : "b", std::chrono::hours(1), {},
                                          [this] { const Gauge::Inside inside(gauge_, 1); });
    require(task.ok(), "there was no room within an hour");
    auto next = executor().try_submit_for("c", std::chrono::hours(1), {},
                                          [this] { const Gauge::Inside inside(gauge_, 1); });
    require(next.ok(), "there was no room within an hour");
  }
  void finish() override { executor().drain(); }

 private:
  Gauge gauge_;
};
TEST(ExploreGroupControl, SubmittersThatWaitForAPlaceInTheGlobalQueue) {
  expect_holds<GlobalQueue>("GroupExecutor", kThreeThreads);
}

// ---- QuietWatch

// One thread waits for three steps that two others make. A wake-up that is lost leaves it asleep.
class WaitsForSteps final : public Scenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      quiet_.wait_for([this] { return steps_.load(std::memory_order_seq_cst) == 3; }, nullptr,
                      scheduler_);
      return;
    }
    for (int i = 0; i < thread; ++i) {
      steps_.fetch_add(1, std::memory_order_seq_cst);
      quiet_.changed();
    }
  }

 private:
  ExploredScheduler scheduler_;
  QuietWatch quiet_;
  keyway::detail::Atomic<int> steps_{0};
};
TEST(ExploreGroupControl, AWaitForQuietSeesTheLastStep) {
  expect_holds<WaitsForSteps>("QuietWatch", kThreeThreads);
}

}  // namespace
}  // namespace keyway::explore
