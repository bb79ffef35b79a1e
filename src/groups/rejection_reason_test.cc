// Why a task was rejected: every way to hear of it tells the reason that the listener is told.
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/future.h"
#include "keyway/group_executor.h"
#include "support/listeners.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

constexpr auto answer = [] { return 42; };
constexpr auto nap = []() -> Task<int> {
  co_await sleep_for(1s);
  co_return 42;
};

struct Reasons final : TaskLifecycleListener {
  void on_rejected(std::string_view, std::string_view, RejectionReason reason) override {
    told.push_back(reason);
  }
  std::vector<RejectionReason> told;
};

class RejectionReasonTest : public ListenedExecutor<Reasons> {
 protected:
  // Of value(), as the caller of join() and of a future meets it.
  template <class T>
  std::optional<Error> error_of(const GroupResult<T>& result) {
    try {
      static_cast<void>(result.value());
      return std::nullopt;
    } catch (const RejectedError& error) {
      EXPECT_EQ(error.reason(), error.error().rejection);
      EXPECT_EQ(error.reason(), result.rejection);
      return error.error();
    }
  }
  void expect_reason(const std::optional<Error>& error, RejectionReason reason, bool retryable,
                     const std::string& says) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code, ErrorCode::kRejected);
    EXPECT_EQ(error->rejection, reason);
    EXPECT_EQ(error->retryable, retryable);
    EXPECT_NE(error->message.find(says), std::string::npos) << error->message;
    EXPECT_EQ(error->group_key, "g");
    ASSERT_FALSE(listener_->told.empty());
    EXPECT_EQ(listener_->told.back(), reason);
  }
};

TEST_F(RejectionReasonTest, OfAGroupShutdownIsToldByTheResult) {
  make({});
  auto runs = executor_->submit("g", "1", nap);
  sim_.run_ready();
  auto waits = executor_->submit("g", "2", answer);
  auto future = to_future(executor_->submit("g", "3", answer));
  executor_->shutdown_group("g");
  expect_reason(error_of(waits.join()), RejectionReason::kGroupShutdown, false, "shutdown_group()");
  expect_reason(error_of(future.get()), RejectionReason::kGroupShutdown, false, "shutdown_group()");
}

TEST_F(RejectionReasonTest, OfAShutdownIsToldByTheResult) {
  make({});
  auto runs = executor_->submit("g", "1", nap);
  sim_.run_ready();
  auto waits = executor_->submit("g", "2", answer);
  executor_->shutdown();
  expect_reason(error_of(waits.join()), RejectionReason::kShutdown, false, "shut down");
}

TEST_F(RejectionReasonTest, OfADiscardedTaskNamesTheQueueThatIsFull) {
  make({.default_group = {.queue_threshold = 0}, .rejection = RejectionPolicy::kDiscard});
  auto runs = executor_->submit("g", "1", nap);
  auto rejected = executor_->submit("g", "2", answer);
  expect_reason(error_of(rejected.join()), RejectionReason::kQueueFull, true,
                "raise the queue threshold");
}

TEST_F(RejectionReasonTest, OfAFullGlobalQueueIsToldByEveryWayToSubmit) {
  make({.global_max_in_flight = 1,
        .global_queue_threshold = 0,
        .rejection = RejectionPolicy::kDiscard});
  auto runs = executor_->submit("other", "1", nap);
  sim_.run_ready();
  const std::string advice = "raise the global queue threshold";
  const auto reason = RejectionReason::kGlobalQueueFull;
  expect_reason(error_of(executor_->submit("g", answer).join()), reason, true, advice);
  expect_reason(executor_->post("g", answer).error(), reason, true, advice);
  expect_reason(executor_->try_submit("g", answer).error(), reason, true, advice);
  const Error timed_out = executor_->try_submit_for("g", 1ms, answer).error();
  EXPECT_EQ(timed_out.code, ErrorCode::kTimeout);
  EXPECT_NE(timed_out.message.find("the global queue was full all the time"), std::string::npos)
      << timed_out.message;
  EXPECT_NE(timed_out.message.find(advice), std::string::npos) << timed_out.message;
}

TEST_F(RejectionReasonTest, OfAConflatedTaskIsToldByEveryWayToSubmit) {
  make({});
  const TaskOptions once{.id = "x", .conflation = Conflation::kKeepOldest};
  auto older = executor_->submit("g", once, nap);
  const std::string says = "an older task with its id has not ended";
  const auto reason = RejectionReason::kConflated;
  expect_reason(error_of(executor_->submit("g", once, answer).join()), reason, false, says);
  expect_reason(executor_->post("g", once, answer).error(), reason, false, says);
  expect_reason(executor_->try_submit("g", once, answer).error(), reason, false, says);
  const Result<TaskHandle<int>> tried = executor_->try_submit_for("g", 1h, once, answer);
  ASSERT_FALSE(tried.ok()) << "as try_submit() does";
  expect_reason(tried.error(), reason, false, says);
  const auto submit = [&]() -> Task<std::optional<Error>> {
    Result<TaskHandle<int>> submitted = co_await executor_->submit_async("g", once, answer);
    if (submitted.ok()) co_return std::nullopt;
    co_return submitted.error();
  };
  expect_reason(sync_wait(sim_, submit()), reason, false, says);
}

TEST_F(RejectionReasonTest, OfATaskThatExecuteAllCouldNotSubmitIsTheShutdown) {
  make({});
  std::vector<GroupTask<int>> tasks;
  tasks.emplace_back("g", "1", [&] {
    executor_->shutdown();
    return 1;
  });
  tasks.emplace_back("g", "2", answer);
  const auto results = executor_->execute_all(std::move(tasks));
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].rejection, std::nullopt);
  EXPECT_EQ(results[1].status, TaskStatus::kRejected);
  EXPECT_EQ(results[1].rejection, RejectionReason::kShutdown);
}

TEST_F(RejectionReasonTest, MessagesStayOnOneLineWhateverTheNames) {
  make({.default_group = {.queue_threshold = 0}});
  auto runs = executor_->submit("g", nap);
  sim_.run_ready();
  const Error error = executor_->try_submit("g", std::string("a\nb"), answer).error();
  EXPECT_EQ(error.task_id, "a\nb");
  EXPECT_EQ(error.message.find("task \"a\\nb\" of group \"g\" was rejected"), 0U) << error.message;
  EXPECT_EQ(executor_->try_submit("g", answer).error().message.find("a task of group \"g\""), 0U);
}

}  // namespace
}  // namespace keyway
