#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/error.h"

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

TEST(ResultDeathTest, TheValueOfAFailurePrintsTheError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Error error{ErrorCode::kIo, "cannot open handled.db: No such file or directory"};
  const char* const expected = "value\\(\\) of a failure: io: cannot open handled.db: No such file";
  EXPECT_DEATH(static_cast<void>(Result<int>(error).value()), expected);
  EXPECT_DEATH(static_cast<void>(*Result<std::string>(error)), expected);
  EXPECT_DEATH(Result<void>(error).value(), expected);
}

TEST(ResultDeathTest, TheErrorOfASuccessEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Result<int> success(1);
  EXPECT_DEATH(static_cast<void>(success.error()), "check failed.*error\\(\\) of a success");
  EXPECT_DEATH(static_cast<void>(Result<void>().error()), "check failed");
}

Result<int> half(int number) {
  if (number % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd"};
  return number / 2;
}

TEST(Result, DereferencesToWhatItIs) {
  Result<std::string> result("page");
  const Result<std::string>& constant = result;
  static_assert(std::is_same_v<decltype(*result), std::string&>);
  static_assert(std::is_same_v<decltype(*constant), const std::string&>);
  static_assert(std::is_same_v<decltype(*std::move(result)), std::string&&>);
  static_assert(std::is_same_v<decltype(*std::move(constant)), const std::string&&>);
  static_assert(std::is_same_v<decltype(constant.value()), const std::string&>);
  static_assert(std::is_same_v<decltype(std::move(constant).value()), const std::string&&>);
  Result<std::unique_ptr<int>> owner(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = *std::move(owner);
  EXPECT_EQ(*taken, 7);
}

TEST(Result, IsMadeFromWhateverConvertsToItsValue) {
  const Result<std::string> text = "page";
  EXPECT_EQ(*text, "page");
  const Result<std::shared_ptr<const int>> shared = std::make_shared<int>(3);
  EXPECT_EQ(**shared, 3);
  EXPECT_FALSE((std::is_constructible_v<Result<std::string>, int>));
}

TEST(Result, OfAConvertibleValueConverts) {
  Result<std::unique_ptr<int>> owner(std::make_unique<int>(7));
  const Result<std::shared_ptr<int>> shared = std::move(owner);
  EXPECT_EQ(**shared, 7);
  const Result<int> failure(full());
  const Result<long> same = failure;
  EXPECT_EQ(same.error(), full());
}

TEST(Result, HasAnErrorThatCanBeChangedAndMovedOut) {
  Result<int> failure(full());
  failure.error().message = "still full";
  const Error taken = std::move(failure).error();
  EXPECT_EQ(taken.message, "still full");
  Result<void> nothing(full());
  static_assert(std::is_same_v<decltype(std::move(nothing).error()), Error&&>);
  EXPECT_EQ(std::move(nothing).error().message, "the queue is full");
}

TEST(Result, FallsBackToAnotherValue) {
  EXPECT_EQ(half(8).value_or(-1), 4);
  EXPECT_EQ(half(7).value_or(-1), -1);
  const Result<std::string> failure(full());
  EXPECT_EQ(failure.value_or("none"), "none");
  EXPECT_EQ(*Result<std::unique_ptr<int>>(std::make_unique<int>(5)).value_or(nullptr), 5);
}

TEST(Result, AndThenGoesOnWithTheValue) {
  EXPECT_EQ(half(8).and_then(half), 2);
  EXPECT_EQ(half(6).and_then(half).error().message, "odd");
  bool called = false;
  const Result<std::string> skipped = half(7).and_then([&](int) -> Result<std::string> {
    called = true;
    return "never";
  });
  EXPECT_EQ(skipped.error().message, "odd");
  EXPECT_FALSE(called);
  const Result<void> none = half(8).and_then([](int) { return Result<void>(); });
  EXPECT_TRUE(none);
  EXPECT_EQ(none.and_then([] { return half(2); }), 1);
}

TEST(Result, TransformWrapsWhatTheCallableReturns) {
  const Result<std::string> text =
      half(8).transform([](int number) { return std::to_string(number); });
  EXPECT_EQ(text, std::string("4"));
  EXPECT_EQ(text.transform(&std::string::size), 1U);
  int seen = 0;
  const Result<void> nothing = half(8).transform([&](int number) { seen = number; });
  EXPECT_TRUE(nothing);
  EXPECT_EQ(seen, 4);
  EXPECT_EQ(nothing.transform([] { return 5; }), 5);
  EXPECT_EQ(half(7).transform(std::identity()).error().message, "odd");
}

TEST(Result, TransformMovesAMoveOnlyValue) {
  Result<std::unique_ptr<int>> owner(std::make_unique<int>(7));
  const Result<int> number =
      std::move(owner).transform([](std::unique_ptr<int> taken) { return *taken; });
  EXPECT_EQ(number, 7);
}

TEST(Result, OrElseGoesOnWithTheError) {
  const auto recover = [](const Error& error) -> Result<int> {
    if (error.retryable) return error;
    return 0;
  };
  EXPECT_EQ(half(8).or_else(recover), 4);
  EXPECT_EQ(half(7).or_else(recover), 0);
  EXPECT_EQ(Result<int>(full()).or_else(recover), full());
  const Result<void> recovered = Result<void>(full()).or_else([](Error) { return Result<void>(); });
  EXPECT_TRUE(recovered);
}

TEST(Result, TransformErrorChangesTheErrorAlone) {
  const auto explain = [](Error error) {
    error.message = "half: " + error.message;
    return error;
  };
  EXPECT_EQ(half(7).transform_error(explain).error().message, "half: odd");
  EXPECT_EQ(half(8).transform_error(explain), 4);
  EXPECT_EQ(Result<void>(full()).transform_error(explain).error().message,
            "half: the queue is full");
}

TEST(Result, ComparesByValueAndByError) {
  EXPECT_EQ(half(8), half(9 - 1));
  EXPECT_NE(half(8), half(6));
  EXPECT_NE(half(8), half(7));
  EXPECT_EQ(half(7), half(9));
  EXPECT_EQ(half(8), 4);
  EXPECT_NE(half(7), 3);
  EXPECT_EQ(Result<int>(full()), full());
  EXPECT_EQ(Result<void>(), Result<void>());
  EXPECT_NE(Result<void>(), Result<void>(full()));
  EXPECT_EQ(Result<void>(full()), full());
  EXPECT_EQ(Result<std::string>(std::string("page")), "page");
  EXPECT_EQ("page", Result<std::string>(std::string("page")));
  struct NotComparable {};
  EXPECT_FALSE((std::equality_comparable<Result<NotComparable>>));
}

// Iterators of such a container are compared, too. Their type names Result, so the compiler considers its ==.
TEST(Result, MayBeKeptInAContainer) {
  struct Page {
    std::string text;
  };
  std::vector<Result<Page>> pages;
  pages.push_back(Page{"one"});
  pages.push_back(full());
  int failures = 0;
  for (const Result<Page>& page : pages) failures += page ? 0 : 1;
  EXPECT_EQ(failures, 1);

  const std::vector<Result<int>> numbers{1, full()};
  EXPECT_EQ(numbers, (std::vector<Result<int>>{1, full()}));
  EXPECT_NE(numbers, (std::vector<Result<int>>{1, 2}));
  EXPECT_NE(std::find(numbers.begin(), numbers.end(), 1), numbers.end());

  std::map<std::string, Result<Page>> by_name;
  by_name.emplace("a", Page{"one"});
  EXPECT_TRUE(by_name.find("b") == by_name.end());
  EXPECT_FALSE(by_name.find("a") == by_name.end());
}

}  // namespace
}  // namespace keyway
