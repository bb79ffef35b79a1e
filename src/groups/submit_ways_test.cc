// Submitting to a full queue without asking the policy: not at all, for a while, or in a coroutine.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

Task<void> nap(Duration time) { co_await sleep_for(time); }

// One may run, one may wait.
GroupPolicy narrow() { return {.default_group = {.max_concurrency = 1, .queue_threshold = 1}}; }

// ---- what may stand before the callable

template <class Submit>
void expect_every_form(const Submit& submit) {
  EXPECT_EQ(submit(answer), "");
  EXPECT_EQ(submit("literal", answer), "literal");
  EXPECT_EQ(submit(std::string("string"), answer), "string");
  EXPECT_EQ(submit(std::string_view("view"), answer), "view");
  EXPECT_EQ(submit(TaskOptions{.id = "options", .priority = 1}, answer), "options");
}

TEST(SubmitForms, OfAnExecutorTakeAnIdOptionsOrNothing) {
  GroupExecutor executor({});
  expect_every_form([&](auto&&... rest) {
    auto handle = executor.submit("g", rest...);
    EXPECT_EQ(handle.group_key(), "g");
    EXPECT_EQ(handle.join().value(), 42);
    auto tried = executor.try_submit("g", rest...);
    EXPECT_EQ(tried->join().value(), 42);
    EXPECT_EQ(tried->task_id(), handle.task_id());
    auto tried_for = executor.try_submit_for("g", 1h, rest...);
    EXPECT_EQ(tried_for->join().value(), 42);
    EXPECT_EQ(tried_for->task_id(), handle.task_id());
    EXPECT_TRUE(executor.post("g", rest...));
    return std::string(handle.task_id());
  });
}

// g++ 12 destroys the temporaries of a co_await expression twice: this is what its message says to write.
TEST(SubmitForms, ASubmitWithANameTakesAMoveOnlyCallableInACoroutine) {
  SimScheduler sim;
  GroupExecutor executor(narrow(), sim);
  auto value = std::make_shared<int>(42);
  const std::weak_ptr<int> lives = value;
  auto first = executor.submit("g", [] { return nap(1s); });
  auto second = executor.submit("g", [] {});  // the queue is full
  const auto submit_both = [&](std::shared_ptr<int> captured) -> Task<int> {
    auto callable = [owner = std::make_unique<std::shared_ptr<int>>(captured)] { return **owner; };
    auto submit = executor.submit_async("g", std::move(callable));
    auto handle = co_await submit;
    auto temporary =
        executor.group("h").submit_async([captured = std::move(captured)] { return *captured; });
    auto other = co_await temporary;
    co_return (co_await *handle).value() + (co_await *other).value();
  };
  EXPECT_EQ(sync_wait(sim, submit_both(std::move(value))), 84);
  EXPECT_TRUE(lives.expired());
  EXPECT_TRUE(first.join().ok() && second.join().ok());
}

TEST(SubmitForms, OfAGroupHandleAreTheSame) {
  GroupExecutor executor({});
  GroupHandle group = executor.group("g");
  expect_every_form([&](auto&&... rest) {
    auto handle = group.submit(rest...);
    EXPECT_EQ(handle.group_key(), "g");
    EXPECT_EQ(handle.join().value(), 42);
    EXPECT_EQ(group.try_submit(rest...)->join().value(), 42);
    EXPECT_EQ(group.try_submit_for(1h, rest...)->join().value(), 42);
    EXPECT_TRUE(group.post(rest...));
    return std::string(handle.task_id());
  });
}

TEST(SubmitForms, BracesAreOptions) {
  GroupExecutor executor({});
  GroupHandle group = executor.group("g");
  EXPECT_EQ(executor.submit("g", {}, answer).join().value(), 42);
  EXPECT_EQ(executor.submit("g", {.id = "1"}, answer).join().task_id, "1");
  EXPECT_EQ(executor.try_submit("g", {}, answer)->join().value(), 42);
  EXPECT_EQ(executor.try_submit_for("g", 1h, {}, answer)->join().value(), 42);
  EXPECT_TRUE(executor.post("g", {}, answer));
  EXPECT_EQ(group.submit({}, answer).join().value(), 42);
  EXPECT_EQ(group.submit({.id = "1"}, answer).join().task_id, "1");
  EXPECT_TRUE(group.post({}, answer));
}

TEST(SubmitForms, OfACoroutineAreTheSame) {
  SimScheduler sim;
  GroupExecutor executor(narrow(), sim);
  GroupHandle group = executor.group("g");
  const auto submit_all = [&]() -> Task<int> {
    auto first = co_await executor.submit_async("g", answer);
    auto second = co_await executor.submit_async("g", "2", answer);
    auto third = co_await group.submit_async(answer);
    auto fourth = co_await group.submit_async({.id = "4"}, answer);
    EXPECT_EQ(second->task_id(), "2");
    EXPECT_EQ(fourth->task_id(), "4");
    int sum = 0;
    for (auto* handle : {&first, &second, &third, &fourth}) {
      const GroupResult<int> result = co_await **handle;
      sum += result.value();
    }
    co_return sum;
  };
  EXPECT_EQ(sync_wait(sim, submit_all()), 4 * 42);
}

TEST(SubmitForms, AnEmptyFunctionIsRefusedInEachOfThem) {
  GroupExecutor executor({});
  const std::function<int()> empty;
  int (*null)() = nullptr;
  EXPECT_THROW((void)executor.submit("g", empty), Exception);
  EXPECT_THROW((void)executor.submit("g", "1", null), Exception);
  EXPECT_THROW((void)executor.try_submit("g", {}, empty), Exception);
  EXPECT_THROW((void)executor.post("g", empty), Exception);
  EXPECT_THROW((void)executor.group("g").submit(null), Exception);
  EXPECT_EQ(executor.stats().submitted, 0U);
}

TEST(SubmitForms, ARefusalNamesTheGroupAndTheTask) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.queue_threshold = 0}}, sim);
  auto first = executor.submit("g", "1", answer);
  const auto tried = executor.try_submit("g", "2", answer);
  EXPECT_EQ(tried.error().group_key, "g");
  EXPECT_EQ(tried.error().task_id, "2");
  EXPECT_NE(tried.error().message.find("task \"2\" of group \"g\""), std::string::npos);
  const Result<void> posted = executor.group("g").post("3", answer);
  EXPECT_EQ(posted.error().code, ErrorCode::kRejected);
  EXPECT_EQ(posted.error().task_id, "3");
  EXPECT_EQ(executor.post("g", answer).error().group_key, "g");
  sim.run_until_idle();
}

// ---- a full queue

TEST(TrySubmit, GivesAHandleWhereThereIsRoomAndAnErrorWhereThereIsNone) {
  SimScheduler sim;
  GroupPolicy policy = narrow();
  policy.rejection = RejectionPolicy::kCallerRuns;  // is not asked
  GroupExecutor executor(std::move(policy), sim);
  auto first = executor.try_submit("g", {.id = "1"}, answer);
  auto second = executor.try_submit("g", {.id = "2"}, answer);
  auto third = executor.try_submit("g", {.id = "3"}, answer);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(second.ok());
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kRejected);
  EXPECT_TRUE(third.error().retryable);
  sim.run_until_idle();
  EXPECT_EQ(second->join().value(), 42);
  EXPECT_EQ(executor.stats().rejected, 1U);
  EXPECT_EQ(executor.stats().submitted, 3U);
  EXPECT_TRUE(executor.try_submit("g", {.id = "4"}, answer).ok()) << "there is room again";
  sim.run_until_idle();
}

TEST(TrySubmit, AfterShutdownThrowsAsSubmitDoes) {
  GroupExecutor executor(narrow());
  executor.shutdown();
  EXPECT_THROW((void)executor.try_submit("g", {}, answer), Exception);
}

TEST(TrySubmitFor, WaitsUntilThereIsRoom) {
  SimScheduler sim;
  GroupExecutor executor(narrow(), sim);
  auto first = executor.submit("g", "1", [] { return nap(10ms); });
  auto second = executor.submit("g", "2", [] { return nap(10ms); });
  const TimePoint before = sim.now();
  auto third = executor.try_submit_for("g", 1h, {.id = "3"}, answer);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(sim.now() - before, 10ms);
  sim.run_until_idle();
  EXPECT_EQ(third->join().value(), 42);
}

TEST(TrySubmitFor, GivesUpWhenTheTimeIsOver) {
  SimScheduler sim;
  GroupExecutor executor(narrow(), sim);
  auto first = executor.submit("g", "1", [] { return nap(10ms); });
  auto second = executor.submit("g", "2", [] { return nap(10ms); });
  const TimePoint before = sim.now();
  auto third = executor.try_submit_for("g", 4ms, {.id = "3"}, answer);
  EXPECT_EQ(sim.now() - before, 4ms);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(executor.stats().rejected, 1U);
  sim.run_until_idle();
  EXPECT_EQ(executor.stats().succeeded, 2U);
}

TEST(TrySubmitFor, WaitsForTheGlobalQueueToo) {
  SimScheduler sim;
  GroupExecutor executor({.global_max_in_flight = 1, .global_queue_threshold = 0}, sim);
  auto first = executor.submit("a", "1", [] { return nap(10ms); });
  EXPECT_FALSE(executor.try_submit("b", {.id = "2"}, answer).ok());
  auto second = executor.try_submit_for("b", 1h, {.id = "2"}, answer);
  ASSERT_TRUE(second.ok());
  sim.run_until_idle();
  EXPECT_EQ(second->join().value(), 42);
}

TEST(TrySubmitFor, ATaskMayWaitForRoomInItsOwnGroup) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.max_concurrency = 1, .queue_threshold = 0}}, sim);
  auto outer = executor.submit("g", "outer", [&] {
    auto inner = executor.try_submit_for("g", 1h, {.id = "inner"}, answer);
    return inner.ok() ? inner->join().value() : 0;
  });
  sim.run_until_idle();
  EXPECT_EQ(outer.join().value(), 42);
}

TEST(TrySubmitFor, ThreadsThatWaitAreServedInTheOrderTheyCame) {
  GroupExecutor executor(narrow());
  std::latch go(1);
  std::atomic<int> order = 0;
  auto first = executor.submit("g", "1", [&] { go.wait(); });
  while (executor.group_stats("g").running == 0) std::this_thread::yield();
  auto second = executor.submit("g", "2", [] {});
  std::vector<std::jthread> threads;
  std::vector<int> places(4, -1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::uint64_t submitted = i;
    threads.emplace_back([&, i] {
      auto handle = executor.try_submit_for("g", 1h, {.id = "t"}, [&, i] { places[i] = order++; });
      ASSERT_TRUE(handle.ok());
      EXPECT_TRUE(handle->join().ok());
    });
    while (executor.waiting_for_room() <= submitted) std::this_thread::yield();
  }
  go.count_down();
  threads.clear();
  EXPECT_EQ(places, (std::vector<int>{0, 1, 2, 3}));
}

TEST(TrySubmitFor, IsToldWhenTheExecutorShutsDown) {
  std::latch go(1);  // outlives the task that waits for it
  GroupExecutor executor(narrow());
  auto first = executor.submit("g", "1", [&] { go.wait(); });
  while (executor.group_stats("g").running == 0) std::this_thread::yield();
  auto second = executor.submit("g", "2", [] {});
  std::jthread thread([&] {
    auto third = executor.try_submit_for("g", 1h, {.id = "3"}, answer);
    ASSERT_FALSE(third.ok());
    EXPECT_EQ(third.error().code, ErrorCode::kShutdown);
  });
  while (executor.waiting_for_room() == 0) std::this_thread::yield();
  executor.shutdown();
  thread.join();
  go.count_down();
}

TEST(TrySubmitFor, ManyThreadsThroughANarrowQueueLoseNothing) {
  constexpr int kLimit = 3;
  GroupExecutor executor({.default_group = {.max_concurrency = kLimit, .queue_threshold = 1}});
  // By group: permits that its tasks hold, and the most that there were.
  std::array<std::atomic<int>, 2> held{};
  std::array<std::atomic<int>, 2> most{};
  std::atomic<int> ran = 0;
  const auto hold = [&](std::size_t group, int permits) {
    const int now = held[group] += permits;
    int before = most[group];
    while (before < now && !most[group].compare_exchange_weak(before, now)) {
    }
    for (int i = 0; i < 3; ++i) std::this_thread::yield();
    held[group] -= permits;
    ++ran;
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) {
          const std::size_t group = i % 2;
          const int cost = 1 + (i + t) % 4;
          // A task that costs more than there is takes all there is.
          const auto task = [&hold, group, permits = std::min(cost, kLimit)] {
            hold(group, permits);
          };
          const std::string key(1, static_cast<char>('a' + group));
          ASSERT_TRUE(executor.try_submit_for(key, 1h, {.id = "x", .cost = cost}, task).ok());
        }
      });
    }
  }
  EXPECT_TRUE(executor.drain(1h));
  EXPECT_EQ(ran, 2000);
  for (const auto& permits : most) EXPECT_EQ(permits, kLimit);
}

TEST(SubmitAsync, ACoroutineWaitsForRoomWithoutAThread) {
  SimScheduler sim;
  GroupExecutor executor(narrow(), sim);
  auto first = executor.submit("g", "1", [] { return nap(10ms); });
  auto second = executor.submit("g", "2", [] { return nap(10ms); });
  auto feeder = executor.submit("feeder", "f", [&]() -> Task<int> {
    int sum = 0;
    for (int i = 0; i < 5; ++i) {
      auto submitted = co_await executor.submit_async("g", {.id = "x"}, answer);
      sum += (co_await *submitted).value();
    }
    co_return sum;
  });
  sim.run_until_idle();
  EXPECT_EQ(feeder.join().value(), 5 * 42);
}

TEST(SubmitAsync, ACallableMayHaveAStateOfItsOwn) {
  SimScheduler sim;
  GroupExecutor executor(narrow(), sim);
  const std::string text = "a text too long for the small buffer of a string";
  auto feeder = executor.submit("feeder", "f", [&]() -> Task<std::string> {
    const auto give_text = [text] { return text; };
    auto submitted = co_await executor.submit_async("g", {.id = "x"}, give_text);
    co_return (co_await *submitted).value();
  });
  sim.run_until_idle();
  EXPECT_EQ(feeder.join().value(), text);
}

TEST(SubmitAsync, AWaitForRoomThatCouldNeverEndIsRefused) {
  SimScheduler sim;
  GroupExecutor executor({.default_group = {.max_concurrency = 1, .queue_threshold = 0}}, sim);
  int refused = 0;
  const auto submit_to = [&](const char* other) -> Task<void> {
    co_await sleep_for(1ms);
    auto handle = co_await executor.submit_async(other, {.id = "x"}, answer);
    if (handle.ok()) co_return;
    EXPECT_EQ(handle.error().code, ErrorCode::kWaitCycle);
    ++refused;
  };
  auto a = executor.submit("a", "1", [&] { return submit_to("b"); });
  auto b = executor.submit("b", "1", [&] { return submit_to("a"); });
  sim.run_until_idle();
  EXPECT_TRUE(a.is_done());
  EXPECT_TRUE(b.is_done());
  EXPECT_EQ(refused, 1);
}

TEST(SubmitAsync, ATaskThatExpiresWhileThereIsNoRoomEndsItsSubmit) {
  SimScheduler sim;
  GroupExecutor executor(narrow(), sim);
  auto first = executor.submit("g", "1", [] { return nap(10ms); });
  auto second = executor.submit("g", "2", [] { return nap(10ms); });
  auto feeder = executor.submit("feeder", "f", [&]() -> Task<TaskStatus> {
    auto submitted = co_await executor.submit_async("g", {.id = "x", .start_within = 2ms}, answer);
    co_return (co_await *submitted).status;
  });
  sim.advance(2ms);
  ASSERT_TRUE(feeder.is_done());
  EXPECT_EQ(feeder.join().value(), TaskStatus::kExpired);
  EXPECT_EQ(executor.stats().expired, 1U);
  sim.run_until_idle();
}

TEST(SubmitAsync, AStopRequestEndsTheWaitForRoom) {
  SimScheduler sim;
  GroupExecutor executor(narrow(), sim);
  auto first = executor.submit("g", "1", [] { return nap(1h); });
  auto second = executor.submit("g", "2", [] { return nap(1h); });
  auto feeder = executor.submit("feeder", "f", [&]() -> Task<Error> {
    auto submitted = co_await executor.submit_async("g", {.id = "x"}, answer);
    co_return submitted.error();
  });
  sim.run_ready();
  EXPECT_EQ(executor.waiting_for_room(), 1U);
  EXPECT_TRUE(feeder.cancel());
  sim.run_ready();
  ASSERT_TRUE(feeder.is_done());
  const Error error = feeder.join().value();
  EXPECT_EQ(error.code, ErrorCode::kCancelled);
  EXPECT_EQ(error.rejection, RejectionReason::kStopped);
  EXPECT_EQ(error.group_key, "g");
  EXPECT_EQ(error.task_id, "x");
  EXPECT_EQ(executor.waiting_for_room(), 0U);
}

class CountsCalls final : public TaskLifecycleListener {
 public:
  void on_submitted(std::string_view, std::string_view) override { ++calls; }
  void on_completed(std::string_view, std::string_view, const TaskOutcome&) override { ++calls; }
  void on_rejected(std::string_view, std::string_view, RejectionReason) override { ++calls; }
  int calls = 0;
};

TEST(SubmitAsync, ASubmitThatIsNeverAwaitedIsNeverSeenAndLeaksNothing) {
  SimScheduler sim;
  const auto listener = std::make_shared<CountsCalls>();
  GroupPolicy policy = narrow();
  policy.listener = listener;
  GroupExecutor executor(policy, sim);
  const auto captured = std::make_shared<int>(42);
  {
    const auto work = [captured] { return *captured; };
    auto never_awaited = executor.submit_async("g", {.id = "x"}, work);
    EXPECT_EQ(captured.use_count(), 3);  // here, in the callable, and in its copy in the task
  }
  EXPECT_EQ(captured.use_count(), 1);
  sim.run_until_idle();
  EXPECT_EQ(executor.stats().submitted, 0U);
  EXPECT_EQ(listener->calls, 0);
}

}  // namespace
}  // namespace keyway
