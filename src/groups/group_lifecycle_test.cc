// What listeners hear, and how tasks, groups and executors end.
#include <atomic>
#include <coroutine>
#include <cstdlib>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;
using Events = std::vector<std::string>;

constexpr auto answer = [] { return 42; };

Task<void> nap() { co_await sleep_for(10s); }

// Keeps what happened to each task.
class Recorder : public TaskLifecycleListener {
 public:
  void on_submitted(std::string_view, std::string_view id) override { add(id, "submitted"); }
  void on_started(std::string_view, std::string_view id) override { add(id, "started"); }
  void on_completed(std::string_view, std::string_view id, const TaskOutcome& outcome) override {
    EXPECT_EQ(outcome.error == nullptr, outcome.status == TaskStatus::kSuccess);
    EXPECT_LE(outcome.started, outcome.ended);
    add(id, std::string("completed ") + to_string(outcome.status));
  }
  void on_rejected(std::string_view, std::string_view id, RejectionReason) override {
    add(id, "rejected");
  }

  Events of(std::string_view id) {
    const std::lock_guard lock(mutex_);
    return events_[std::string(id)];
  }

 private:
  void add(std::string_view id, std::string event) {
    const std::lock_guard lock(mutex_);
    events_[std::string(id)].push_back(std::move(event));
  }

  std::mutex mutex_;
  std::map<std::string, Events> events_;
};

template <class Call>
ErrorCode code_of(Call call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.code();
  }
  ADD_FAILURE() << "threw nothing";
  return {};
}

// ---- listeners

TEST(TaskListener, HearsEveryWayATaskCanEndOnceAndInOrder) {
  SimScheduler sim;
  const auto heard = std::make_shared<Recorder>();
  GroupExecutor executor({.groups = {{"full", {.queue_threshold = 0}}}, .listener = heard}, sim);
  (void)executor.submit("a", "success", answer);
  (void)executor.submit("a", "failure", [] { throw 42; });
  sim.run_ready();
  auto running = executor.submit("a", "cancelled running", &nap);
  auto waiting = executor.submit("a", "cancelled waiting", &nap);
  sim.run_ready();
  waiting.cancel();
  running.cancel();
  sim.run_ready();
  (void)executor.submit("full", "full", &nap);
  (void)executor.submit("full", "turned away", &nap);
  (void)executor.submit("a", "stopped by shutdown_group", &nap);
  (void)executor.submit("a", "drained by shutdown_group", &nap);
  sim.run_ready();
  executor.shutdown_group("a");
  (void)executor.submit("a", "stopped by shutdown", &nap);
  (void)executor.submit("a", "drained by shutdown", &nap);
  sim.run_ready();
  executor.shutdown();
  EXPECT_THROW((void)executor.submit("a", "too late", answer), Exception);
  sim.run_until_idle();

  const Events turned_away{"submitted", "rejected"};
  const Events stopped{"submitted", "started", "completed cancelled"};
  EXPECT_EQ(heard->of("success"), (Events{"submitted", "started", "completed success"}));
  EXPECT_EQ(heard->of("failure"), (Events{"submitted", "started", "completed failed"}));
  EXPECT_EQ(heard->of("cancelled waiting"), (Events{"submitted", "completed cancelled"}));
  EXPECT_EQ(heard->of("cancelled running"), stopped);
  EXPECT_EQ(heard->of("turned away"), turned_away);
  EXPECT_EQ(heard->of("stopped by shutdown_group"), stopped);
  EXPECT_EQ(heard->of("drained by shutdown_group"), turned_away);
  EXPECT_EQ(heard->of("stopped by shutdown"), stopped);
  EXPECT_EQ(heard->of("drained by shutdown"), turned_away);
  EXPECT_EQ(heard->of("too late"), turned_away);
}

TEST(TaskListener, HearsOfATaskThatItsCallerRan) {
  SimScheduler sim;
  const auto heard = std::make_shared<Recorder>();
  GroupExecutor executor({.default_group = {.queue_threshold = 0},
                          .rejection = RejectionPolicy::kCallerRuns,
                          .listener = heard},
                         sim);
  (void)executor.submit("a", "1", &nap);
  (void)executor.submit("a", "2", answer);
  EXPECT_EQ(heard->of("2"), (Events{"submitted", "started", "completed success"}));
}

TEST(TaskListener, HearsOfTheEndBeforeWhoeverWaits) {
  const auto heard = std::make_shared<Recorder>();
  GroupExecutor executor({.listener = heard});
  for (int i = 0; i < 1000; ++i) {
    const std::string id = std::to_string(i);
    (void)executor.submit("a", id, answer).join();
    ASSERT_EQ(heard->of(id).size(), 3U);
  }
}

TEST(TaskListener, MayThrowAndNobodyIsTheWorse) {
  struct Thrower : TaskLifecycleListener {
    void on_submitted(std::string_view, std::string_view) override { throw 1; }
    void on_started(std::string_view, std::string_view) override { throw std::bad_alloc(); }
    void on_completed(std::string_view, std::string_view, const TaskOutcome&) override { throw 3; }
    void on_rejected(std::string_view, std::string_view, RejectionReason) override { throw 4; }
  };
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"a", {.queue_threshold = 0}}},
                          .rejection = RejectionPolicy::kDiscard,
                          .listener = std::make_shared<Thrower>()},
                         sim);
  auto first = executor.submit("a", "1", answer);
  EXPECT_EQ(executor.submit("a", "2", answer).join().status, TaskStatus::kRejected);
  EXPECT_EQ(first.join().value(), 42);
}

TEST(TaskListener, MayUseTheExecutor) {
  struct Submitter : TaskLifecycleListener {
    void on_completed(std::string_view key, std::string_view, const TaskOutcome&) override {
      EXPECT_EQ(executor->group_stats(key).running, 0U);
      if (--left > 0) (void)executor->submit(key, "next", answer);
    }
    GroupExecutor* executor = nullptr;
    std::atomic<int> left = 100;
  };
  const auto listener = std::make_shared<Submitter>();
  GroupExecutor executor({.listener = listener});
  listener->executor = &executor;
  (void)executor.submit("a", "first", answer);
  while (listener->left > 0) std::this_thread::yield();
}

// ---- shutdown

TEST(Shutdown, EndsWaitingTasksRejectedAndAsksRunningOnesToStop) {
  GroupExecutor executor({});
  std::latch running(1);
  std::latch go(1);
  auto asked = executor.submit("a", "1", [&](const std::stop_token& stop) {
    running.count_down();
    go.wait();
    return stop.stop_requested();
  });
  auto waiting = executor.submit("a", "2", [] { ADD_FAILURE() << "ran"; });
  running.wait();
  executor.shutdown();  // does not wait for the task that runs
  EXPECT_FALSE(asked.is_done());
  const GroupResult<void> rejected = waiting.join();
  EXPECT_EQ(rejected.status, TaskStatus::kRejected);
  EXPECT_EQ(rejected.error, nullptr);
  go.count_down();
  EXPECT_TRUE(asked.join().value());
}

TEST(Shutdown, MakesEveryLaterSubmitThrow) {
  GroupExecutor executor({});
  GroupHandle group = executor.group("a");
  executor.shutdown();
  executor.shutdown();
  EXPECT_TRUE(executor.shutdown(0s));
  EXPECT_TRUE(executor.shutdown(1h));
  for (const char* key : {"a", "b"}) {
    EXPECT_EQ(code_of([&] { (void)executor.submit(key, "1", answer); }), ErrorCode::kShutdown);
    EXPECT_EQ(code_of([&] { (void)executor.post(key, answer); }), ErrorCode::kShutdown);
  }
  EXPECT_EQ(code_of([&] { (void)group.post(answer); }), ErrorCode::kShutdown);
  std::vector<GroupTask<int>> tasks;
  tasks.emplace_back("a", "1", answer);
  EXPECT_EQ(code_of([&] { (void)executor.execute_all(std::move(tasks)); }), ErrorCode::kShutdown);
  EXPECT_EQ(executor.stats().submitted, 6U);
  EXPECT_EQ(executor.stats().rejected, 6U);
}

TEST(Shutdown, WithEnoughTimeLetsEveryTaskFinish) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 3; ++i) handles.push_back(executor.submit("a", std::to_string(i), &nap));
  EXPECT_TRUE(executor.shutdown(31s));
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
}

TEST(Shutdown, WithTooLittleTimeStopsWhatIsLeft) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 3; ++i) handles.push_back(executor.submit("a", std::to_string(i), &nap));
  EXPECT_FALSE(executor.shutdown(15s));
  EXPECT_EQ(handles[0].join().status, TaskStatus::kSuccess);
  EXPECT_EQ(handles[1].join().status, TaskStatus::kCancelled);
  EXPECT_EQ(handles[2].join().status, TaskStatus::kRejected);
}

TEST(Shutdown, WithTooLittleTimeStillWaitsForATaskThatDoesNotListen) {
  std::latch running(1);
  std::atomic<bool> ended = false;
  const auto heard = std::make_shared<Recorder>();
  GroupExecutor executor({.listener = heard});
  auto deaf = executor.submit("a", "deaf", [&] {
    running.count_down();
    while (heard->of("waiting").size() < 2) std::this_thread::yield();  // until it is rejected
    ended = true;
  });
  auto waiting = executor.submit("a", "waiting", answer);
  running.wait();
  EXPECT_FALSE(executor.shutdown(1ms));
  EXPECT_TRUE(ended);
  EXPECT_TRUE(deaf.join().ok());
}

TEST(Shutdown, ByTheDestructorRejectsWhatWaitsAndJoinsWhatRuns) {
  TaskHandle<int> running;
  std::vector<TaskHandle<int>> waiting;
  std::latch started(1);
  {
    GroupExecutor executor({});
    running = executor.submit("a", "1", [&](const std::stop_token& stop) {
      started.count_down();
      while (!stop.stop_requested()) std::this_thread::yield();
      return 42;
    });
    for (int i = 0; i < 100; ++i) waiting.push_back(executor.submit("a", "2", answer));
    started.wait();
  }
  EXPECT_EQ(running.join().value(), 42);
  for (auto& handle : waiting) EXPECT_EQ(handle.join().status, TaskStatus::kRejected);
}

TEST(Shutdown, MayComeFromATaskAndFromManyThreadsAtOnce) {
  GroupExecutor executor({});
  auto handle = executor.submit("a", "1", [&] { executor.shutdown(); });
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(
          [&, i] { i % 2 == 0 ? executor.shutdown() : (void)executor.shutdown(1h); });
    }
  }
  EXPECT_TRUE(handle.is_done());
}

TEST(Shutdown, RacingWithSubmitsLosesNoTask) {
  for (int round = 0; round < 12; ++round) {
    std::atomic<int> ran = 0;
    std::vector<std::vector<TaskHandle<void>>> taken(4);
    std::latch under_way(4);
    GroupExecutor executor({.global_max_in_flight = 3});
    {
      std::vector<std::jthread> submitters;
      for (auto& own : taken) {
        submitters.emplace_back([&] {
          try {
            for (int i = 0;; ++i) {
              own.push_back(executor.submit(std::to_string(i % 3), "1", [&] { ++ran; }));
              if (i == 20) under_way.count_down();
            }
          } catch (const Exception& refused) {
            EXPECT_EQ(refused.code(), ErrorCode::kShutdown);
          }
        });
      }
      under_way.wait();
      round % 2 == 0 ? executor.shutdown() : (void)executor.shutdown(1h);
    }
    int succeeded = 0;
    for (auto& own : taken) {
      for (auto& handle : own) {
        const GroupResult<void> result = handle.join();
        succeeded += result.ok() ? 1 : 0;
        EXPECT_TRUE(result.ok() || (round % 2 == 0 && result.status == TaskStatus::kRejected));
      }
    }
    EXPECT_EQ(succeeded, ran);
  }
}

// ---- the end of a group

TEST(ShutdownGroup, LeavesOtherGroupsAloneAndItsKeyUsable) {
  GroupExecutor executor({});
  std::latch running(2);
  std::latch go(1);
  auto until_go = [&](const std::stop_token& stop) {
    running.count_down();
    go.wait();
    return stop.stop_requested();
  };
  auto a1 = executor.submit("a", "1", until_go);
  auto b1 = executor.submit("b", "1", until_go);
  auto a2 = executor.submit("a", "2", answer);
  auto b2 = executor.submit("b", "2", answer);
  running.wait();
  executor.shutdown_group("a");
  executor.shutdown_group("unknown");
  EXPECT_EQ(a2.join().status, TaskStatus::kRejected);
  auto a3 =
      executor.submit("a", "3", [](const std::stop_token& stop) { return stop.stop_requested(); });
  go.count_down();
  EXPECT_TRUE(a1.join().value());
  EXPECT_FALSE(b1.join().value());
  EXPECT_TRUE(b2.join().ok());
  EXPECT_FALSE(a3.join().value());
}

// ---- what can be asked

TEST(GroupStats, CountEveryTaskInOnePlace) {
  SimScheduler sim;
  GroupExecutor executor(
      {.groups = {{"a", {.queue_threshold = 2}}}, .rejection = RejectionPolicy::kDiscard}, sim);
  EXPECT_TRUE(executor.active_group_keys().empty());
  std::vector<TaskHandle<void>> a;
  for (int i = 0; i < 4; ++i) a.push_back(executor.submit("a", "1", &nap));
  auto failed = executor.submit("b", "1", [] { throw 42; });
  sim.run_ready();
  a[2].cancel();
  GroupStats stats = executor.group_stats("a");
  EXPECT_EQ(stats.submitted, 4U);
  EXPECT_EQ(stats.running, 1U);
  EXPECT_EQ(stats.waiting, 1U);
  EXPECT_EQ(stats.cancelled, 1U);
  EXPECT_EQ(stats.rejected, 1U);
  EXPECT_EQ(executor.group_stats("b").failed, 1U);
  EXPECT_EQ(executor.group_stats("never seen").submitted, 0U);
  auto z = executor.submit("z", "1", &nap);
  auto m = executor.submit("m", "1", &nap);
  EXPECT_EQ(executor.active_group_keys(), (Events{"a", "m", "z"}));
  sim.run_until_idle();
  stats = executor.stats();
  EXPECT_EQ(stats.submitted, 7U);
  EXPECT_EQ(stats.succeeded, 4U);
  EXPECT_EQ(stats.failed + stats.cancelled + stats.rejected, 3U);
  EXPECT_EQ(stats.running + stats.waiting, 0U);
}

// ---- who is still there

TEST(GroupStats, AGroupWhoseOnlyTaskWasCancelledIsNotActive) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  EXPECT_TRUE(executor.submit("a", "1", &nap).cancel());
  EXPECT_EQ(executor.active_group_keys(), Events{});
}

TEST(Shutdown, DoesNotWaitForTasksOfAnotherExecutorOnTheSamePool) {
  std::latch running(1);
  std::latch go(1);
  ThreadPool pool;
  GroupExecutor busy({}, pool);
  auto handle = busy.submit("a", "1", [&] { running.count_down(), go.wait(); });
  running.wait();
  auto idle = std::make_unique<GroupExecutor>(GroupPolicy{}, pool);
  auto destroyed = std::async(std::launch::async, [&] { idle.reset(); });
  EXPECT_EQ(destroyed.wait_for(1s), std::future_status::ready);
  go.count_down();
}

TEST(Shutdown, WithATimeoutMayComeFromATask) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    alarm(5);  // should it hang
    GroupExecutor executor({});
    auto handle = executor.submit("a", "1", [&] { return executor.shutdown(1ms); });
    EXPECT_FALSE(handle.join().value());
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

// Holds up whoever tells it that a task has completed.
struct SlowListener : TaskLifecycleListener {
  void on_completed(std::string_view, std::string_view id, const TaskOutcome&) override {
    if (id != "slow") return;
    told.count_down();
    go.wait();
  }
  std::latch told{1};
  std::latch go{1};
};

// Whether `call` returns although nobody lets the listener go. Waits for nothing if it does.
template <class Call>
bool returns_early(SlowListener& listener, Call call) {
  auto returned = std::async(std::launch::async, call);
  const bool early = returned.wait_for(100ms) == std::future_status::ready;
  listener.go.count_down();
  return early;
}

TEST(Shutdown, ByTheDestructorWaitsForACoroutineThatEndsOnAForeignThread) {
  struct Park {
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) { parked = coroutine; }
    void await_resume() const {}
    std::coroutine_handle<>& parked;
  };
  const auto listener = std::make_shared<SlowListener>();
  auto executor = std::make_unique<GroupExecutor>(
      GroupPolicy{.listener = listener}, ThreadPoolOptions{.threads = 1, .max_threads = 1});
  std::coroutine_handle<> parked;
  (void)executor->submit("a", "slow", [&]() -> Task<void> { co_await Park{parked}; });
  (void)executor->submit("b", "1", answer).join();  // the one worker has left the coroutine
  std::jthread foreign([&] { parked.resume(); });
  listener->told.wait();
  EXPECT_FALSE(returns_early(*listener, [&] { executor.reset(); }));
}

TEST(Shutdown, WithATimeoutWaitsForATaskThatIsBeingCancelled) {
  const auto listener = std::make_shared<SlowListener>();
  std::latch go(1);
  GroupExecutor executor({.listener = listener});
  auto running = executor.submit("a", "1", [&] { go.wait(); });
  auto waiting = executor.submit("a", "slow", answer);
  std::jthread canceller([&] { waiting.cancel(); });
  listener->told.wait();
  go.count_down();
  EXPECT_FALSE(returns_early(*listener, [&] { EXPECT_TRUE(executor.shutdown(1h)); }));
}

TEST(Shutdown, NoTaskIsRunByItsCallerAfterIt) {
  std::latch go(1);
  std::latch asked(1);
  std::latch closed(1);
  GroupExecutor executor({.default_group = {.queue_threshold = 0},
                          .rejection_handler = [&](std::string_view, std::string_view) {
                            asked.count_down();
                            closed.wait();
                            return RejectionPolicy::kCallerRuns;
                          }});
  std::atomic<bool> ended = false;
  auto running = executor.submit("a", "1", [&] { go.wait(); });
  std::jthread submitter([&] {
    try {
      (void)executor.submit("a", "2", [&] { EXPECT_FALSE(ended) << "runs after shutdown()"; });
    } catch (const Exception& refused) {
      EXPECT_EQ(refused.code(), ErrorCode::kShutdown);
    }
  });
  asked.wait();
  go.count_down();
  auto shutdown = std::async(std::launch::async, [&] { ended = executor.shutdown(1h); });
  shutdown.wait_for(100ms);
  closed.count_down();
}

}  // namespace
}  // namespace keyway
