#include <atomic>
#include <cstddef>
#include <exception>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

std::optional<ErrorCode> code_of(const std::exception_ptr& error) {
  if (!error) return std::nullopt;
  try {
    std::rethrow_exception(error);
  } catch (const Exception& exception) {
    return exception.code();
  } catch (...) {
    return std::nullopt;
  }
}

// Tasks that run until they are asked to stop, and are counted.
class Stoppable {
 public:
  explicit Stoppable(int expected) : expected_(expected), begun_(expected) {}

  auto task() {
    return [this](const std::stop_token& own) {
      ++running_;
      if (++started_ <= expected_) begun_.count_down();
      std::latch asked(1);
      const std::stop_callback callback(own, [&] { asked.count_down(); });
      asked.wait();
      --running_;
    };
  }
  // Until as many as expected have begun.
  void wait() const { begun_.wait(); }
  int running() const { return running_; }
  int started() const { return started_; }

 private:
  const int expected_;
  std::latch begun_;
  std::atomic<int> running_{0};
  std::atomic<int> started_{0};
};

TEST(ExecuteAll, GivesEveryResultInTheOrderOfTheTasks) {
  GroupExecutor executor({.resolver = [](std::string_view key) { return key == "a" ? 3 : 1; }});
  std::vector<GroupTask<std::string>> tasks;
  for (int i = 0; i < 60; ++i) {
    const std::string id = std::to_string(i);
    auto call = [id, kept = std::make_unique<int>(i)] {
      return *kept % 3 == 0 ? throw std::runtime_error(id) : id;
    };
    tasks.emplace_back(i % 2 == 0 ? "a" : "b", id, std::move(call));
  }
  auto results = executor.execute_all(std::move(tasks));
  ASSERT_EQ(results.size(), 60U);
  for (int i = 0; i < 60; ++i) {
    auto& result = results[static_cast<std::size_t>(i)];
    EXPECT_EQ(result.task_id, std::to_string(i));
    EXPECT_EQ(result.status, i % 3 == 0 ? TaskStatus::kFailed : TaskStatus::kSuccess);
    if (result.ok()) {
      EXPECT_EQ(result.value(), result.task_id);
    }
  }
  EXPECT_TRUE(executor.execute_all(std::vector<GroupTask<void>>()).empty());
}

TEST(ExecuteAll, RunsCoroutinesBesidePlainCallables) {
  testing::SimScheduler sim(1);
  GroupExecutor executor({.default_group = {.max_concurrency = 2}}, sim);
  std::vector<GroupTask<int>> tasks;
  tasks.emplace_back("g", "coroutine", []() -> Task<int> {
    co_await sleep_for(10min);
    co_return 1;
  });
  tasks.emplace_back("g", "plain", [] { return 2; });
  tasks.emplace_back("g", "takes a token", [](std::stop_token) -> Task<int> { co_return 3; });
  tasks.emplace_back("g", "converted", [] { return short{4}; });
  tasks.emplace_back("g", [] { return 5; });
  const TimePoint began = sim.now();
  int sum = 0;
  for (auto& result : executor.execute_all(std::move(tasks))) sum = sum * 10 + result.value();
  EXPECT_EQ(sum, 12345);
  EXPECT_EQ(sim.now() - began, 10min);
}

TEST(ExecuteAll, TasksMayReturnReferencesAndNothing) {
  GroupExecutor executor({});
  int number = 1;
  std::vector<GroupTask<int&>> references;
  references.emplace_back("g", "1", [&]() -> int& { return number; });
  EXPECT_EQ(&executor.execute_all(std::move(references))[0].value(), &number);
  std::vector<GroupTask<void>> nothing;
  nothing.emplace_back("g", "1", [&] { ++number; });
  nothing.emplace_back("g", "2", [&]() -> Task<void> {
    ++number;
    co_return;
  });
  for (const auto& result : executor.execute_all(std::move(nothing))) EXPECT_TRUE(result.ok());
  EXPECT_EQ(number, 3);
}

TEST(ExecuteAll, EachTaskHasItsOwnOptions) {
  testing::SimScheduler sim(1);
  GroupExecutor executor({.default_group = {.max_concurrency = 1}}, sim);
  std::vector<std::string> order;
  const auto note = [&](std::string id) { return [&order, id] { order.push_back(id); }; };
  std::vector<GroupTask<void>> tasks;
  tasks.emplace_back("g", TaskOptions{.id = "low", .priority = -1}, note("low"));
  tasks.emplace_back("g", TaskOptions{.id = std::string("high"), .priority = 1}, note("high"));
  tasks.emplace_back("g", TaskOptions{.id = "late", .start_within = 0ns}, note("late"));
  tasks.push_back({"g", {}, note("plain")});
  const auto results = executor.execute_all(std::move(tasks));
  EXPECT_EQ(results[0].task_id, "low");
  EXPECT_EQ(results[1].task_id, "high");
  EXPECT_EQ(results[2].status, TaskStatus::kExpired);
  EXPECT_TRUE(results[3].ok());
  EXPECT_EQ(order, (std::vector<std::string>{"high", "plain", "low"}));
}

TEST(ExecuteAll, OptionsOutOfRangeAreRefusedWhenTheTaskIsDescribed) {
  const auto nothing = [] {};
  EXPECT_THROW(GroupTask<void>("g", TaskOptions{.cost = 0}, nothing), Exception);
  EXPECT_THROW(GroupTask<void>("", nothing), Exception);
}

TEST(ExecuteAll, AStopCancelsWhatIsNotDoneAndWaitsForWhatRuns) {
  std::stop_source stop;
  std::atomic<bool> ended = false;
  GroupExecutor executor({});
  std::vector<GroupTask<void>> tasks;
  tasks.emplace_back("g", "done", [] {});
  tasks.emplace_back("g", "running", [&](const std::stop_token& own) {
    std::latch asked(1);
    const std::stop_callback callback(own, [&] { asked.count_down(); });
    stop.request_stop();
    asked.wait();
    ended = true;
    throw CancelledError();
  });
  tasks.emplace_back("g", "waiting", [] { ADD_FAILURE() << "ran"; });
  const auto results = executor.execute_all(std::move(tasks), stop.get_token());
  EXPECT_TRUE(ended) << "it returned while a task ran";
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].status, TaskStatus::kSuccess);
  EXPECT_EQ(results[1].status, TaskStatus::kCancelled);
  EXPECT_EQ(results[2].status, TaskStatus::kCancelled);
  EXPECT_EQ(code_of(results[2].error), ErrorCode::kCancelled);
}

// Lets everything run that is ready when it hears of a cancelled task.
class RunsOnCancel final : public TaskLifecycleListener {
 public:
  explicit RunsOnCancel(testing::SimScheduler& sim) : sim_(sim) {}
  void on_completed(std::string_view, std::string_view, const TaskOutcome& outcome) override {
    if (outcome.status == TaskStatus::kCancelled) sim_.run_ready();
  }

 private:
  testing::SimScheduler& sim_;
};

// The four tasks that run end while the others are cancelled, if they have been asked to stop by then.
TEST(ExecuteAll, AStopStartsNoTaskInThePlaceOfACancelledOne) {
  testing::SimScheduler sim;
  GroupExecutor executor(
      {.default_group = {.max_concurrency = 4}, .listener = std::make_shared<RunsOnCancel>(sim)},
      sim);
  int running = 0;
  int started = 0;
  const auto until_stopped = [&]() -> Task<void> {
    ++started;
    ++running;
    try {
      co_await sleep_for(1h);
    } catch (const CancelledError&) {
    }
    --running;
  };
  std::stop_source stop;
  auto stopper = executor.submit("stopper", [&]() -> Task<void> {
    co_await sleep_for(1ms);
    stop.request_stop();
  });
  std::vector<GroupTask<void>> tasks;
  for (int i = 0; i < 20; ++i) tasks.emplace_back("g", std::to_string(i), until_stopped);
  const auto results = executor.execute_all(std::move(tasks), stop.get_token());
  EXPECT_EQ(running, 0) << "it returned while tasks ran";
  EXPECT_EQ(started, 4);
  ASSERT_EQ(results.size(), 20U);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].status, i < 4 ? TaskStatus::kSuccess : TaskStatus::kCancelled) << i;
  }
}

TEST(ExecuteAll, AStopBeforeTheCallRunsNothing) {
  GroupExecutor executor({});
  std::stop_source stop;
  stop.request_stop();
  std::vector<GroupTask<void>> tasks;
  tasks.emplace_back("g", "1", [] { ADD_FAILURE() << "ran"; });
  const auto results = executor.execute_all(std::move(tasks), stop.get_token());
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].status, TaskStatus::kCancelled);
  EXPECT_EQ(results[0].task_id, "1");
  EXPECT_EQ(executor.stats().submitted, 0U);
}

// Shuts the executor down while a certain task is being submitted.
class ShutdownAt final : public TaskLifecycleListener {
 public:
  explicit ShutdownAt(std::string id) : id_(std::move(id)) {}
  void on_submitted(std::string_view, std::string_view task_id) override {
    if (task_id == id_) shutdown();
  }
  std::function<void()> shutdown;

 private:
  const std::string id_;
};

TEST(ExecuteAll, AShutdownMidwayRejectsTheRestAndWaitsForWhatRuns) {
  Stoppable stoppable(3);
  const auto listener = std::make_shared<ShutdownAt>("3");
  GroupExecutor executor({.default_group = {.max_concurrency = 3}, .listener = listener},
                         {.threads = 3});
  listener->shutdown = [&] {
    stoppable.wait();
    executor.shutdown();
  };
  std::vector<GroupTask<void>> tasks;
  for (int i = 0; i < 6; ++i) tasks.emplace_back("g", std::to_string(i), stoppable.task());
  const auto results = executor.execute_all(std::move(tasks));
  EXPECT_EQ(stoppable.running(), 0) << "it returned while tasks ran";
  EXPECT_EQ(stoppable.started(), 3);
  ASSERT_EQ(results.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(results[i].task_id, std::to_string(i));
    EXPECT_EQ(results[i].status, i < 3 ? TaskStatus::kSuccess : TaskStatus::kRejected) << i;
    if (i < 3) continue;
    EXPECT_EQ(results[i].rejection, RejectionReason::kShutdown);
    EXPECT_THROW((void)results[i].value(), RejectedError);
  }
}

TEST(ExecuteAll, AShutdownBeforeTheFirstTaskIsThrown) {
  const auto listener = std::make_shared<ShutdownAt>("0");
  GroupExecutor executor({.listener = listener});
  listener->shutdown = [&] { executor.shutdown(); };
  std::vector<GroupTask<void>> tasks;
  for (int i = 0; i < 2; ++i) {
    tasks.emplace_back("g", std::to_string(i), [] { ADD_FAILURE() << "ran"; });
  }
  try {
    static_cast<void>(executor.execute_all(std::move(tasks)));
    FAIL() << "it did not throw";
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), ErrorCode::kShutdown);
  }
}

// The second task cannot share the result of the first, which has another type: its submit throws.
TEST(ExecuteAll, AnExceptionOfASubmitIsThrownWhenNothingRunsAnyMore) {
  GroupExecutor executor({.default_group = {.max_concurrency = 4}}, {.threads = 2});
  Stoppable stoppable(1);
  std::latch go(1);
  auto other = executor.submit("g", {.id = "x", .conflation = Conflation::kShareResult},
                               [&] { return go.wait(), 1; });
  std::vector<GroupTask<void>> tasks;
  tasks.emplace_back("g", "0", stoppable.task());
  tasks.emplace_back("g", TaskOptions{.id = "x", .conflation = Conflation::kShareResult}, [] {});
  EXPECT_THROW(static_cast<void>(executor.execute_all(std::move(tasks))), Exception);
  EXPECT_EQ(stoppable.running(), 0) << "it threw while a task ran";
  go.count_down();
  EXPECT_EQ(other.join().value(), 1);
}

// A task that waits for the caller of execute_all(), which waits for it: the task's wait is refused, however early it
// comes, so the call has its result when it returns.
TEST(ExecuteAll, ATaskCannotWaitForTheCaller) {
  for (int round = 0; round < 200; ++round) {
    GroupExecutor executor({.default_group = {.max_concurrency = 4}}, {.threads = 4});
    std::optional<TaskHandle<void>> caller;
    std::latch known(1);
    std::atomic<int> running = 0;
    caller = executor.submit("caller", [&] {
      known.wait();
      std::vector<GroupTask<ErrorCode>> tasks;
      for (const char* id : {"first", "second"}) {
        tasks.emplace_back(id, id, [&] {
          ++running;
          ErrorCode code{};
          try {
            static_cast<void>(caller->join());
          } catch (const Exception& exception) {
            code = exception.code();
          }
          --running;
          return code;
        });
      }
      const auto results = executor.execute_all(std::move(tasks));
      EXPECT_EQ(running, 0);
      for (const GroupResult<ErrorCode>& result : results) {
        EXPECT_EQ(result.value(), ErrorCode::kWaitCycle);
      }
    });
    known.count_down();
    ASSERT_TRUE(caller->join().ok());
  }
}

// The call's own wait closes the cycle: "first" never begins, and the task before it ends.
TEST(ExecuteAll, ACallThatClosesACycleThrowsWhenItsTasksHaveEnded) {
  GroupExecutor executor({}, {.threads = 4});
  Stoppable stoppable(1);
  std::optional<TaskHandle<ErrorCode>> caller;
  std::latch known(1);
  std::latch blocked(1);
  std::atomic<bool> ran = false;
  caller = executor.submit("caller", [&]() -> ErrorCode {
    known.wait();
    std::vector<GroupTask<void>> tasks;
    tasks.emplace_back("other", "0", stoppable.task());
    tasks.emplace_back("first", "1", [&] { ran = true; });
    try {
      static_cast<void>(executor.execute_all(std::move(tasks)));
    } catch (const Exception& exception) {
      EXPECT_EQ(stoppable.running(), 0);
      return exception.code();
    }
    return {};
  });
  // Holds the group "first", and waits for the caller. explain() lists tasks that can be stopped.
  auto holder = executor.submit("first", "holder", [&](std::stop_token) {
    blocked.count_down();
    return caller->join().value();
  });
  blocked.wait();
  const auto holder_waits = [&] {
    const Explanation first = executor.explain("first");
    return !first.holders.empty() && !first.holders[0].waits_for.empty();
  };
  while (!holder_waits()) std::this_thread::yield();
  known.count_down();
  EXPECT_EQ(holder.join().value(), ErrorCode::kWaitCycle);
  EXPECT_FALSE(ran);
}

// All of them are in the caller's own group, which is serial: they run while it waits.
TEST(ExecuteAll, OfTheOwnGroupEndsAndHasThePermitBackAfterwards) {
  GroupExecutor executor({}, {.threads = 4});
  std::atomic<int> inside = 0;
  auto caller = executor.submit("g", "caller", [&] {
    std::vector<GroupTask<int>> tasks;
    for (int i = 0; i < 20; ++i) {
      tasks.emplace_back("g", std::to_string(i), [&] { return inside.fetch_add(1), --inside; });
    }
    const auto results = executor.execute_all(std::move(tasks));
    const int before = inside.fetch_add(1);
    for (const GroupResult<int>& result : results) EXPECT_EQ(result.value(), 0);
    return --inside + before;
  });
  auto next = executor.submit("g", "next", [&] { return inside.fetch_add(1), --inside; });
  EXPECT_EQ(caller.join().value(), 0);
  EXPECT_EQ(next.join().value(), 0);
}

}  // namespace
}  // namespace keyway
