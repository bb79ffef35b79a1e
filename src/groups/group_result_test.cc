#include "keyway/group_result.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

template <class T>
GroupResult<T> rejected() {
  return {.group_key = "vip", .task_id = "task-1", .status = TaskStatus::kRejected};
}

class GroupResults : public testing::Test {
 protected:
  GroupExecutor executor_{{.default_group = {.max_concurrency = 1}}};
};

TEST_F(GroupResults, TheValueIsOfTheKindOfReferenceThatTheResultIs) {
  GroupResult<std::string> result =
      executor_.submit("g", "t", [] { return std::string("page"); }).join();
  const GroupResult<std::string>& constant = result;
  static_assert(std::is_same_v<decltype(result.value()), std::string&>);
  static_assert(std::is_same_v<decltype(constant.value()), const std::string&>);
  static_assert(std::is_same_v<decltype(std::move(result).value()), std::string&&>);
  static_assert(std::is_same_v<decltype(std::move(constant).value()), const std::string&&>);
  EXPECT_EQ(constant.value(), "page");
  result.value() += "-1";
  const std::string taken = std::move(result).value();
  EXPECT_EQ(taken, "page-1");
}

TEST_F(GroupResults, AMoveOnlyValueIsMovedOutOfATemporary) {
  const std::unique_ptr<int> owner =
      executor_.submit("g", "t", [] { return std::make_unique<int>(7); }).join().value();
  EXPECT_EQ(*owner, 7);
}

TEST_F(GroupResults, AReferenceStaysThatReference) {
  int number = 1;
  const GroupResult<int&> result =
      executor_.submit("g", "t", [&]() -> int& { return number; }).join();
  static_assert(std::is_same_v<decltype(result.value()), int&>);
  static_assert(std::is_same_v<decltype(std::move(result).value()), int&>);
  result.value() = 2;
  EXPECT_EQ(number, 2);
  int other = 3;
  EXPECT_EQ(&result.value_or(other), &number);
  EXPECT_EQ(&rejected<int&>().value_or(other), &other);
}

TEST_F(GroupResults, OfNothingThrowsWhatTheTaskThrew) {
  const GroupResult<void> result = executor_.submit("g", "t", [] {}).join();
  static_assert(std::is_void_v<decltype(result.value())>);
  EXPECT_NO_THROW(result.value());
  const GroupResult<void> failure =
      executor_.submit("g", "t", [] { throw std::runtime_error("no"); }).join();
  EXPECT_THROW(failure.value(), std::runtime_error);
}

TEST_F(GroupResults, FallBackToAnotherValueInsteadOfThrowing) {
  const GroupResult<int> success = executor_.submit("g", "t", [] { return 1; }).join();
  EXPECT_EQ(success.value_or(2), 1);
  const auto failing = []() -> std::string { throw std::runtime_error("no"); };
  const GroupResult<std::string> failure = executor_.submit("g", "t", failing).join();
  EXPECT_EQ(failure.value_or("none"), "none");
  EXPECT_EQ(
      *executor_.submit("g", "t", [] { return std::make_unique<int>(5); }).join().value_or(nullptr),
      5);
}

TEST_F(GroupResults, WithoutAValueSayWhichTaskHasNone) {
  try {
    rejected<int>().value();
    FAIL();
  } catch (const RejectedError& error) {
    EXPECT_EQ(error.group_key(), "vip");
    EXPECT_EQ(error.task_id(), "task-1");
  }
}

TEST_F(GroupResults, AWaitThatTimedOutSaysSoAndTheTaskGoesOn) {
  executor_.pause();
  auto handle = executor_.submit("g", "t", [] { return 42; });
  const GroupResult<int> timed_out = handle.join_for(0ms);
  EXPECT_EQ(timed_out.status, TaskStatus::kTimedOut);
  EXPECT_FALSE(timed_out.ok());
  EXPECT_THROW(timed_out.value(), TimeoutError);
  EXPECT_FALSE(handle.is_done());
  executor_.resume();
  EXPECT_EQ(handle.join().value(), 42);
}

TEST(TaskStatus, IsPrintedByItsName) {
  EXPECT_EQ(testing::PrintToString(TaskStatus::kTimedOut), "timed_out");
  EXPECT_EQ(testing::PrintToString(TaskStatus::kSuccess), "success");
}

}  // namespace
}  // namespace keyway
