#include "keyway/task_listener.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/listeners.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };
constexpr auto nap = []() -> Task<int> {
  co_await sleep_for(10ms);
  co_return 42;
};

// Writes down what it is told, by task id.
class Recorder final : public TaskLifecycleListener {
 public:
  void on_submitted(std::string_view, std::string_view id) override { add(id, "submitted"); }
  void on_started(std::string_view, std::string_view id) override { add(id, "started"); }
  void on_completed(std::string_view, std::string_view id, const TaskOutcome& outcome) override {
    add(id, outcome.ran ? "completed" : "completed unrun");
  }
  void on_rejected(std::string_view, std::string_view id, RejectionReason reason) override {
    add(id, std::string("rejected: ") + to_string(reason));
  }

  using Events = std::vector<std::string>;
  Events of(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return events_[id];
  }

 private:
  void add(std::string_view id, std::string event) {
    const std::lock_guard lock(mutex_);
    events_[std::string(id)].push_back(std::move(event));
  }

  std::mutex mutex_;
  std::map<std::string, Events> events_;
};

class Listener : public ListenedExecutor<Recorder> {
 protected:
  using Events = Recorder::Events;
};

TEST_F(Listener, HearsWhetherATaskHasRun) {
  make({});
  auto ran = executor_->submit("g", "ran", nap);
  auto cancelled = executor_->submit("g", "cancelled", answer);
  auto expired = executor_->submit("g", {.id = "expired", .start_within = 1ms}, answer);
  auto stopped = executor_->submit("other", "stopped", nap);
  EXPECT_TRUE(cancelled.cancel());
  sim_.run_ready();
  EXPECT_TRUE(stopped.cancel());
  sim_.run_until_idle();
  EXPECT_EQ(listener_->of("ran"), (Events{"submitted", "started", "completed"}));
  EXPECT_EQ(listener_->of("cancelled"), (Events{"submitted", "completed unrun"}));
  EXPECT_EQ(listener_->of("expired"), (Events{"submitted", "completed unrun"}));
  EXPECT_EQ(listener_->of("stopped"), (Events{"submitted", "started", "completed"}));
}

TEST_F(Listener, HearsThatATaskSharedTheResultOfAnother) {
  make({});
  const TaskOptions shared{.id = "shared", .conflation = Conflation::kShareResult};
  auto leader = executor_->submit("g", shared, nap);
  auto follower = executor_->submit("g", shared, nap);
  sim_.run_until_idle();
  Events events = listener_->of("shared");
  std::sort(events.begin(), events.end());  // of two tasks with this id, in no order
  EXPECT_EQ(events, (Events{"completed", "completed unrun", "started", "submitted", "submitted"}));
}

TEST_F(Listener, HearsWhichQueueWasFull) {
  make({.default_group = {.queue_threshold = 0}});
  auto first = executor_->submit("g", "1", nap);
  auto second = executor_->submit("g", "2", nap);
  EXPECT_FALSE(executor_->try_submit("g", "3", nap).ok());
  EXPECT_EQ(listener_->of("2"), (Events{"submitted", "rejected: queue_full"}));
  EXPECT_EQ(listener_->of("3"), (Events{"submitted", "rejected: queue_full"}));
  make({.global_max_in_flight = 1, .global_queue_threshold = 0});
  auto third = executor_->submit("a", "4", nap);
  auto fourth = executor_->submit("b", "5", nap);
  EXPECT_FALSE(executor_->try_submit("b", "6", nap).ok());
  EXPECT_EQ(listener_->of("5"), (Events{"submitted", "rejected: global_queue_full"}));
  EXPECT_EQ(listener_->of("6"), (Events{"submitted", "rejected: global_queue_full"}));
  sim_.run_until_idle();
}

TEST_F(Listener, HearsThatNoRoomCameInTime) {
  make({.default_group = {.queue_threshold = 0}});
  auto first = executor_->submit("g", "1", nap);
  EXPECT_EQ(executor_->try_submit_for("g", 1ms, "2", nap).error().task_id, "2");
  EXPECT_EQ(listener_->of("2"), (Events{"submitted", "rejected: no_room_in_time"}));
  sim_.run_until_idle();
}

TEST_F(Listener, HearsWhoEndedAWaitingTask) {
  make({});
  auto first = executor_->submit("g", "1", nap);
  auto second = executor_->submit("g", "2", nap);
  executor_->shutdown_group("g");
  auto third = executor_->submit("h", "3", nap);
  auto fourth = executor_->submit("h", "4", nap);
  executor_->shutdown();
  EXPECT_THROW((void)executor_->submit("g", "5", nap), Exception);
  sim_.run_until_idle();
  EXPECT_EQ(listener_->of("2"), (Events{"submitted", "rejected: group_shutdown"}));
  EXPECT_EQ(listener_->of("4"), (Events{"submitted", "rejected: shutdown"}));
  EXPECT_EQ(listener_->of("5"), (Events{"submitted", "rejected: shutdown"}));
}

TEST_F(Listener, HearsThatAnOlderTaskWasKept) {
  make({});
  const TaskOptions oldest{.id = "1", .conflation = Conflation::kKeepOldest};
  auto first = executor_->submit("g", oldest, nap);
  auto second = executor_->submit("g", oldest, nap);
  sim_.run_until_idle();
  EXPECT_EQ(listener_->of("1"),
            (Events{"submitted", "submitted", "rejected: conflated", "started", "completed"}));
}

TEST_F(Listener, ARejectionThatIsThrownSaysTheSame) {
  make({.global_max_in_flight = 1, .global_queue_threshold = 0});
  auto first = executor_->submit("g", "1", nap);
  auto second = executor_->submit("h", "2", nap);
  try {
    static_cast<void>(second.join());
    FAIL();
  } catch (const RejectedError& error) {
    EXPECT_EQ(error.group_key(), "h");
    EXPECT_EQ(error.task_id(), "2");
    EXPECT_EQ(error.reason(), RejectionReason::kGlobalQueueFull);
    EXPECT_NE(std::string(error.what()).find("global"), std::string::npos);
  }
  sim_.run_until_idle();
}

// Looks at values.
class Values final : public TaskLifecycleListener {
 public:
  void on_completed(std::string_view, std::string_view, const TaskOutcome& outcome) override {
    look(outcome);
  }
  std::function<void(const TaskOutcome&)> look;
};

class ListenerValues : public ::testing::Test {
 protected:
  ListenerValues() {
    values_->look = [this](const TaskOutcome& outcome) { look_(outcome); };
  }
  template <class F, class Look>
  auto run(F callable, Look look) {
    look_ = look;
    return executor_.submit("g", callable).join();
  }

  const std::shared_ptr<Values> values_ = std::make_shared<Values>();
  SimScheduler sim_;
  GroupExecutor executor_{{.listener = values_}, sim_};
  std::function<void(const TaskOutcome&)> look_;
};

TEST_F(ListenerValues, AreSeenByTheirType) {
  int seen = 0;
  const auto result =
      run([] { return std::string("page"); },
          [&](const TaskOutcome& outcome) {
            ++seen;
            static_assert(
                std::is_same_v<decltype(outcome.value_if<std::string>()), const std::string*>);
            ASSERT_NE(outcome.value_if<std::string>(), nullptr);
            EXPECT_EQ(*outcome.value_if<std::string>(), "page");
            EXPECT_EQ(outcome.value_if<int>(), nullptr);
            EXPECT_EQ(outcome.value_if<std::string&>(), nullptr);
          });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(result.value(), "page") << "the listener only looks";
}

TEST_F(ListenerValues, OfCoroutinesAndReferencesAreSeen) {
  int seen = 0;
  EXPECT_TRUE(run(nap, [&](const TaskOutcome& outcome) { seen += *outcome.value_if<int>(); }).ok());
  int number = 1;
  EXPECT_TRUE(run([&]() -> int& { return number; },
                  [&](const TaskOutcome& outcome) {
                    EXPECT_EQ(outcome.value_if<int&>(), &number);
                    EXPECT_EQ(outcome.value_if<int>(), nullptr);
                    ++seen;
                  })
                  .ok());
  EXPECT_TRUE(run([] {},
                  [&](const TaskOutcome& outcome) {
                    EXPECT_EQ(outcome.value_if<int>(), nullptr);
                    ++seen;
                  })
                  .ok());
  EXPECT_EQ(seen, 44);
}

TEST_F(ListenerValues, AreNotThereForATaskThatFailed) {
  const auto failing = []() -> int { throw 1; };
  EXPECT_FALSE(run(failing, [&](const TaskOutcome& outcome) {
                 EXPECT_EQ(outcome.value_if<int>(), nullptr);
                 EXPECT_NE(outcome.error, nullptr);
               }).ok());
}

// Counts as the example of the header does; every count is per task, so it is never negative.
class Gauge final : public TaskLifecycleListener {
 public:
  void on_submitted(std::string_view, std::string_view) override { ++waiting_; }
  void on_started(std::string_view, std::string_view) override {
    check(--waiting_);
    ++running_;
  }
  void on_completed(std::string_view, std::string_view, const TaskOutcome& outcome) override {
    check(outcome.ran ? --running_ : --waiting_);
  }
  void on_rejected(std::string_view, std::string_view, RejectionReason) override {
    check(--waiting_);
  }
  int waiting() const { return waiting_; }
  int running() const { return running_; }
  bool was_negative() const { return negative_; }

 private:
  void check(int count) {
    if (count < 0) negative_ = true;
  }
  std::atomic<int> waiting_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> negative_{false};
};

TEST(ListenerThreads, AGaugeIsNeverNegativeAndEndsAtZero) {
  const auto gauge = std::make_shared<Gauge>();
  {
    GroupExecutor executor({.default_group = {.max_concurrency = 2, .queue_threshold = 5},
                            .rejection = RejectionPolicy::kDiscard,
                            .listener = gauge},
                           {.threads = 4});
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < 2'000; ++k) {
          auto handle = executor.submit(
              std::to_string(k % 3),
              {.id = std::to_string(k % 7),
               .start_within = k % 5 == 0 ? std::optional<Duration>(1us) : std::nullopt,
               .conflation = static_cast<Conflation>((k + i) % 4)},
              answer);
          if (k % 3 == 0) handle.cancel();
        }
      });
    }
    threads.clear();
    executor.drain();
  }
  EXPECT_FALSE(gauge->was_negative());
  EXPECT_EQ(gauge->waiting(), 0);
  EXPECT_EQ(gauge->running(), 0);
}

}  // namespace
}  // namespace keyway
