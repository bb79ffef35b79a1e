// Code of the user's runs only when the executor's state is complete: listeners, continuations, destructors and
// handlers may wait for other tasks, cancel them, drain and shut down.
#include <atomic>
#include <chrono>
#include <coroutine>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/foreign_coroutine.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// Long enough that only a hang gets there.
constexpr auto kHang = 20s;

class Listener final : public TaskLifecycleListener {
 public:
  void on_started(std::string_view group, std::string_view id) override {
    if (started) started(std::string(group), std::string(id));
  }
  void on_completed(std::string_view group, std::string_view id,
                    const TaskOutcome& outcome) override {
    if (completed) completed(std::string(group), std::string(id), outcome);
  }
  void on_rejected(std::string_view group, std::string_view id, RejectionReason) override {
    if (rejected) rejected(std::string(group), std::string(id));
  }

  std::function<void(std::string, std::string)> started;
  std::function<void(std::string, std::string, const TaskOutcome&)> completed;
  std::function<void(std::string, std::string)> rejected;
};

class HandOver : public ::testing::Test {
 protected:
  // One group at limit 1; task a waits for a_may_end, b is queued behind it.
  void make(ThreadPoolOptions threads = {}) {
    executor_.emplace(GroupPolicy{.listener = listener_}, threads);
    a_ = executor_->submit("g", "a", [this] { a_may_end_.wait(); });
    b_ = executor_->submit("g", "b", [this] { b_ran_ = true; });
  }

  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  std::latch a_may_end_{1};
  std::atomic<bool> b_ran_ = false;
  std::optional<GroupExecutor> executor_;
  TaskHandle<void> a_;
  TaskHandle<void> b_;
};

TEST_F(HandOver, OnCompletedMayJoinTheNextTask) {
  std::promise<bool> joined;
  listener_->completed = [&](const std::string&, const std::string& id, const TaskOutcome&) {
    if (id == "a") joined.set_value(b_.join_for(kHang).ok());
  };
  make();
  a_may_end_.count_down();
  EXPECT_TRUE(joined.get_future().get());
}

TEST_F(HandOver, OnCompletedMaySubmitToItsGroupAndJoin) {
  std::promise<bool> joined;
  listener_->completed = [&](const std::string&, const std::string& id, const TaskOutcome&) {
    if (id != "a") return;
    joined.set_value(executor_->submit("g", "c", [] {}).join_for(kHang).ok());
  };
  make();
  a_may_end_.count_down();
  EXPECT_TRUE(joined.get_future().get());
}

TEST_F(HandOver, OnCompletedMayDrain) {
  std::promise<bool> drained;
  listener_->completed = [&](const std::string&, const std::string& id, const TaskOutcome&) {
    if (id == "a") drained.set_value(executor_->drain(kHang));
  };
  make();
  a_may_end_.count_down();
  EXPECT_TRUE(drained.get_future().get());
  EXPECT_TRUE(b_ran_);
}

TEST_F(HandOver, TwoListenersMayDrainAtOnce) {
  std::latch both(2);
  std::atomic<int> drained = 0;
  std::latch done(2);
  listener_->completed = [&](const std::string&, const std::string&, const TaskOutcome&) {
    both.arrive_and_wait();
    drained += executor_->drain(kHang) ? 1 : 0;
    done.count_down();
  };
  executor_.emplace(GroupPolicy{.listener = listener_});
  auto one = executor_->submit("x", [] {});
  auto other = executor_->submit("y", [] {});
  done.wait();
  executor_.reset();  // the listeners have returned
  EXPECT_EQ(drained, 2);
}

TEST_F(HandOver, OnCompletedMayCancelTheNextTask) {
  std::promise<bool> cancelled;
  listener_->completed = [&](const std::string&, const std::string& id, const TaskOutcome&) {
    if (id == "a") cancelled.set_value(b_.cancel());
  };
  // A single thread: it is in the listener, so b has not begun.
  make({.threads = 1, .max_threads = 1});
  a_may_end_.count_down();
  EXPECT_TRUE(cancelled.get_future().get());
  EXPECT_EQ(b_.join().status, TaskStatus::kCancelled);
  EXPECT_FALSE(b_ran_);
}

TEST_F(HandOver, AfterAShutdownInOnCompletedNoOtherTaskBegins) {
  std::atomic<int> began = 0;
  std::atomic<int> completed = 0;
  std::promise<void> down;
  listener_->completed = [&](const std::string&, const std::string&, const TaskOutcome& outcome) {
    if (!outcome.ran || ++completed != 3) return;
    executor_->shutdown();
    down.set_value();
  };
  executor_.emplace(GroupPolicy{.listener = listener_},
                    ThreadPoolOptions{.threads = 1, .max_threads = 1});
  executor_->pause();
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 10; ++i) handles.push_back(executor_->submit("g", [&] { ++began; }));
  executor_->resume();
  down.get_future().wait();
  for (auto& handle : handles) static_cast<void>(handle.join());
  EXPECT_EQ(began, 3);
}

TEST_F(HandOver, AForeignCoroutineMayAwaitATaskAndJoinTheNext) {
  std::promise<bool> joined;
  make();
  const auto coroutine = [&]() -> ForeignCoroutine {
    (void)co_await a_;
    joined.set_value(b_.join_for(kHang).ok());
  };
  coroutine();
  a_may_end_.count_down();
  EXPECT_TRUE(joined.get_future().get());
}

TEST_F(HandOver, ADestructorOfAResultMayJoinTheNextTask) {
  std::promise<bool> joined;
  struct Joins {
    explicit Joins(std::function<void()> f) : call(std::move(f)) {}
    Joins(Joins&&) noexcept = default;
    ~Joins() {
      if (call) call();
    }
    std::function<void()> call;
  };
  executor_.emplace(GroupPolicy{});
  ASSERT_TRUE(executor_
                  ->post("g",
                         [&] {
                           a_may_end_.wait();
                           return Joins([&] { joined.set_value(b_.join_for(kHang).ok()); });
                         })
                  .ok());
  b_ = executor_->submit("g", "b", [] {});
  a_may_end_.count_down();
  EXPECT_TRUE(joined.get_future().get());
}

// The destructor of a capture runs as the last act of its task: a wait there is a wait of the task.
TEST_F(HandOver, ADestructorOfACaptureMayJoinTheNextTask) {
  bool joined = false;
  executor_.emplace(GroupPolicy{});
  struct Joins {
    ~Joins() { joined = b.join_for(kHang).ok(); }
    TaskHandle<void>& b;
    bool& joined;
  };
  auto a = executor_->submit(
      "g", "a", [this, joins = std::make_unique<Joins>(b_, joined)] { a_may_end_.wait(); });
  b_ = executor_->submit("g", "b", [] {});
  a_may_end_.count_down();
  EXPECT_TRUE(a.join().ok());
  EXPECT_TRUE(joined);
}

TEST_F(HandOver, TheNextTaskOfASerialGroupBeginsAfterTheCapturesAreDestroyed) {
  SimScheduler sim;
  GroupExecutor executor({}, sim);
  std::vector<std::string> order;
  struct Tells {
    ~Tells() { order.push_back("captures of " + name + " destroyed"); }
    std::vector<std::string>& order;
    std::string name;
  };
  auto plain = executor.submit(
      "g", "1", [&, captured = std::make_unique<Tells>(order, "1")] { order.push_back("1 runs"); });
  auto coroutine = executor.submit(
      "g", "2", [&, captured = std::make_unique<Tells>(order, "2")]() -> Task<void> {
        co_await sleep_for(1ms);
        order.push_back("2 runs");
      });
  auto last = executor.submit("g", "3", [&] { order.push_back("3 runs"); });
  EXPECT_TRUE(last.join().ok());
  EXPECT_EQ(order, (std::vector<std::string>{"1 runs", "captures of 1 destroyed", "2 runs",
                                             "captures of 2 destroyed", "3 runs"}));
}

// A task that shares another one's result never runs: its callable is destroyed when the other one ends.
TEST_F(HandOver, ADestructorOfACallableThatSharesAResultMayJoinTheNextTask) {
  std::promise<bool> joined;
  struct Joins {
    explicit Joins(std::function<void()> f) : call(std::move(f)) {}
    Joins(Joins&& other) noexcept : call(std::exchange(other.call, nullptr)) {}
    ~Joins() {
      if (call) call();
    }
    std::function<void()> call;
  };
  executor_.emplace(GroupPolicy{});
  const TaskOptions shared{.id = "x", .conflation = Conflation::kShareResult};
  auto leader = executor_->submit("g", shared, [this] { return a_may_end_.wait(), 1; });
  auto follower = executor_->submit(
      "g", shared,
      [joins = Joins([&] { joined.set_value(b_.join_for(kHang).ok()); })] { return 2; });
  b_ = executor_->submit("g", "b", [] {});
  a_may_end_.count_down();
  EXPECT_TRUE(joined.get_future().get());
  EXPECT_EQ(follower.join().value(), 1);
}

// The permits of a task that cost two let two others begin. The first of them waits for the second.
TEST_F(HandOver, ACostlyTaskLetsTwoBegin) {
  for (int round = 0; round < 50; ++round) {
    GroupExecutor executor({.default_group = {.max_concurrency = 2}});
    std::latch go(1);
    auto costly = executor.submit("g", {.cost = 2}, [&] { go.wait(); });
    TaskHandle<void> second;
    std::latch known(1);
    auto first = executor.submit("g", "first", [&] {
      known.wait();
      return second.join_for(kHang).ok();
    });
    second = executor.submit("g", "second", [] {});
    known.count_down();
    go.count_down();
    ASSERT_TRUE(first.join().value());
  }
}

TEST_F(HandOver, OnStartedMayWaitForATaskOfItsOwnGroup) {
  std::promise<bool> joined;
  listener_->started = [&](const std::string&, const std::string& id) {
    if (id == "a") joined.set_value(executor_->submit("g", "c", [] {}).join_for(kHang).ok());
  };
  executor_.emplace(GroupPolicy{.listener = listener_});
  a_ = executor_->submit("g", "a", [] {});
  EXPECT_TRUE(joined.get_future().get());
  EXPECT_TRUE(a_.join().ok());
}

TEST_F(HandOver, AListenerOfARejectedTaskMayJoinAnotherOneOfTheSameShutdown) {
  std::promise<bool> joined;
  std::atomic<bool> first = true;
  std::vector<TaskHandle<void>> handles(10);
  listener_->rejected = [&](const std::string&, const std::string& id) {
    if (!first.exchange(false)) return;
    auto& other = handles[id == "9" ? 0 : 9];
    joined.set_value(other.join_for(kHang).status == TaskStatus::kRejected);
  };
  executor_.emplace(GroupPolicy{.listener = listener_});
  a_ = executor_->submit("g", "a", [this] { a_may_end_.wait(); });
  for (std::size_t i = 0; i < handles.size(); ++i) {
    handles[i] = executor_->submit("g", std::to_string(i), [] {});
  }
  executor_->shutdown_group("g");
  EXPECT_TRUE(joined.get_future().get());
  a_may_end_.count_down();
  executor_.reset();  // the listeners, which refer to the variables here, have returned
}

TEST_F(HandOver, AContinuationOfARejectedTaskMayJoinAnotherOneOfTheSameShutdown) {
  std::promise<bool> joined;
  executor_.emplace(GroupPolicy{});
  a_ = executor_->submit("g", "a", [this] { a_may_end_.wait(); });
  b_ = executor_->submit("g", "b", [] {});
  TaskHandle<void> c = executor_->submit("g", "c", [] {});
  const auto coroutine = [&]() -> ForeignCoroutine {
    (void)co_await b_;
    joined.set_value(c.join_for(kHang).status == TaskStatus::kRejected);
  };
  coroutine();
  executor_->shutdown_group("g");
  EXPECT_TRUE(joined.get_future().get());
  a_may_end_.count_down();
  executor_.reset();  // the listeners, which refer to the variables here, have returned
}

TEST_F(HandOver, AListenerThatWaitsForItsOwnTaskIsRefused) {
  std::promise<ErrorCode> refused;
  listener_->completed = [&](const std::string&, const std::string& id, const TaskOutcome&) {
    if (id != "a") return;
    try {
      static_cast<void>(a_.join());
    } catch (const Exception& error) {
      refused.set_value(error.code());
    }
  };
  make();
  a_may_end_.count_down();
  EXPECT_EQ(refused.get_future().get(), ErrorCode::kWaitCycle);
}

TEST_F(HandOver, AListenerOfAnExpiredTaskDoesNotHoldUpTimers) {
  std::latch expired(1);
  std::latch may_return(1);
  listener_->completed = [&](const std::string&, const std::string& id, const TaskOutcome&) {
    if (id != "late") return;
    expired.count_down();
    may_return.wait();
  };
  executor_.emplace(GroupPolicy{.listener = listener_});
  a_ = executor_->submit("g", "a", [this] { a_may_end_.wait(); });
  auto late = executor_->submit("g", {.id = "late", .start_within = 1ms}, [] {});
  expired.wait();
  // The listener is still in its call.
  auto slept = executor_->submit(
      "other", [] { return [](Duration time) -> Task<void> { co_await sleep_for(time); }(1ms); });
  EXPECT_TRUE(slept.join_for(kHang).ok());
  may_return.count_down();
  EXPECT_EQ(late.join().status, TaskStatus::kExpired);
  a_may_end_.count_down();
}

TEST_F(HandOver, AnExpiredTaskIsToldAlthoughAllThreadsAreBusy) {
  executor_.emplace(GroupPolicy{}, ThreadPoolOptions{.threads = 1, .max_threads = 1});
  a_ = executor_->submit("g", "a", [this] { a_may_end_.wait(); });
  auto late = executor_->submit("g", {.id = "late", .start_within = 1ms}, [] {});
  EXPECT_EQ(late.join_for(kHang).status, TaskStatus::kExpired);
  a_may_end_.count_down();
}

TEST_F(HandOver, ARejectionHandlerMayDrain) {
  std::atomic<bool> drained = false;
  executor_.emplace(GroupPolicy{.default_group = {.queue_threshold = 0},
                                .rejection_handler = [&](std::string_view, std::string_view) {
                                  a_may_end_.count_down();
                                  drained = executor_->drain(kHang);
                                  return RejectionPolicy::kDiscard;
                                }});
  a_ = executor_->submit("g", "a", [this] { a_may_end_.wait(); });
  b_ = executor_->submit("g", "b", [] {});
  EXPECT_TRUE(drained);
  EXPECT_EQ(b_.join().status, TaskStatus::kRejected);
}

}  // namespace
}  // namespace keyway
