#include "keyway/error.h"

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

namespace keyway {
namespace {

Error full() { return {ErrorCode::kRejected, "the queue is full", /*retryable=*/true}; }

TEST(Result, HoldsTheValueItWasMadeFrom) {
  const Result<std::string> result(std::string("page"));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result);
  EXPECT_EQ(result.value(), "page");
  EXPECT_EQ(*result, "page");
  EXPECT_EQ(result->size(), 4U);
}

TEST(Result, HoldsTheErrorItWasMadeFrom) {
  const Result<std::string> result(full());
  ASSERT_FALSE(result.ok());
  EXPECT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kRejected);
  EXPECT_EQ(result.error().message, "the queue is full");
  EXPECT_TRUE(result.error().retryable);
}

TEST(Result, IsReturnedAsAValueOrAnError) {
  const auto half = [](int number) -> Result<int> {
    if (number % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd"};
    return number / 2;
  };
  EXPECT_EQ(half(8).value(), 4);
  EXPECT_EQ(half(7).error().message, "odd");
  EXPECT_FALSE(half(7).error().retryable);
}

TEST(Result, GivesAMoveOnlyValueOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(42));
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 42);
}

TEST(Result, ItsValueCanBeChangedInPlace) {
  Result<std::string> result(std::string("page"));
  result.value() += "-1";
  *result += "-2";
  result->push_back('!');
  EXPECT_EQ(result.value(), "page-1-2!");
}

TEST(Result, OfNothingIsASuccessUnlessItHoldsAnError) {
  EXPECT_TRUE(Result<void>().ok());
  const Result<void> failure(full());
  EXPECT_FALSE(failure);
  EXPECT_EQ(failure.error().code, ErrorCode::kRejected);
}

TEST(Result, IsTrueOnlyWhereAConditionIsMeant) {
  EXPECT_FALSE((std::is_convertible_v<Result<int>, bool>));
  EXPECT_FALSE((std::is_convertible_v<Result<void>, bool>));
}

TEST(ResultDeathTest, TheValueOfAFailureEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Result<int> failure(full());
  EXPECT_DEATH(static_cast<void>(failure.value()), "check failed.*value\\(\\) of a failure");
}

TEST(ResultDeathTest, TheErrorOfASuccessEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Result<int> success(1);
  EXPECT_DEATH(static_cast<void>(success.error()), "check failed.*error\\(\\) of a success");
  EXPECT_DEATH(static_cast<void>(Result<void>().error()), "check failed");
}

TEST(Exception, CarriesItsError) {
  const Exception exception(full());
  EXPECT_STREQ(exception.what(), "the queue is full");
  EXPECT_EQ(exception.code(), ErrorCode::kRejected);
  EXPECT_EQ(exception.error().message, "the queue is full");
  EXPECT_TRUE(exception.error().retryable);
}

TEST(Exception, EachKindHasItsCodeAndSaysWhetherToTryAgain) {
  EXPECT_EQ(RejectedError("full").code(), ErrorCode::kRejected);
  EXPECT_TRUE(RejectedError("full").error().retryable);
  EXPECT_EQ(CancelledError("stop").code(), ErrorCode::kCancelled);
  EXPECT_FALSE(CancelledError("stop").error().retryable);
  EXPECT_EQ(TimeoutError("late").code(), ErrorCode::kTimeout);
  EXPECT_TRUE(TimeoutError("late").error().retryable);
  EXPECT_STREQ(TimeoutError("late").what(), "late");
}

TEST(Exception, EachKindIsCaughtAsAnExceptionAndAsARuntimeError) {
  EXPECT_THROW(throw RejectedError("full"), Exception);
  EXPECT_THROW(throw CancelledError(), Exception);
  EXPECT_THROW(throw TimeoutError("late"), std::runtime_error);
}

TEST(ErrorCode, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const ErrorCode code :
       {ErrorCode::kInvalidArgument, ErrorCode::kShutdown, ErrorCode::kRejected,
        ErrorCode::kCancelled, ErrorCode::kTimeout, ErrorCode::kExpired, ErrorCode::kWaitCycle,
        ErrorCode::kResultTaken}) {
    names.insert(to_string(code));
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_STREQ(to_string(ErrorCode::kWaitCycle), "wait_cycle");
}

}  // namespace
}  // namespace keyway
