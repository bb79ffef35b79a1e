#include "report/kept_attempts.h"

#include <set>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;

constexpr LoggedAttempt::Time kStart{400'000h};

LoggedAttempt attempt(int seq, std::chrono::milliseconds wait, std::chrono::milliseconds run,
                      AttemptOutcome outcome = AttemptOutcome::kOk) {
  LoggedAttempt result;
  result.id = "job-" + std::to_string(seq);
  result.seq = static_cast<std::uint64_t>(seq);
  result.queued = kStart + seq * 1ms;
  result.start = result.queued + wait;
  result.end = result.start + run;
  result.outcome = outcome;
  return result;
}

std::vector<std::uint64_t> numbers(const std::vector<KeptAttempts::Kept>& kept) {
  std::vector<std::uint64_t> result;
  result.reserve(kept.size());
  for (const auto& one : kept) result.push_back(one->seq);
  return result;
}

TEST(KeptAttempts, AreAllOfThemWhileThereAreFew) {
  KeptAttempts kept({});
  for (int i = 1; i <= 100; ++i) kept.add(attempt(i, 1ms, 5ms));
  EXPECT_EQ(kept.all().size(), 100U);
  EXPECT_EQ(numbers(kept.all()).front(), 1U) << "in the order they began";
}

TEST(KeptAttempts, OfManyAreTheFirstTheLongestAndTheFailed) {
  KeptAttempts kept(
      {.first = 3, .longest_runs = 2, .longest_waits = 1, .first_failures = 1, .last_failures = 1});
  for (int i = 1; i <= 10'000; ++i) {
    auto run = 5ms;
    auto wait = 1ms;
    auto outcome = AttemptOutcome::kOk;
    if (i == 500) run = 90ms;
    if (i == 7000) run = 80ms;
    if (i == 6000) run = 70ms;
    if (i == 9000) wait = 2s;
    if (i == 4000 || i == 4001 || i == 4002) outcome = AttemptOutcome::kFailed;
    if (i == 4003) outcome = AttemptOutcome::kTimedOut;
    LoggedAttempt one = attempt(i, wait, run, outcome);
    one.error_output = "error " + std::to_string(i);
    kept.add(one);
  }
  EXPECT_EQ(numbers(kept.all()),
            (std::vector<std::uint64_t>{1, 2, 3, 500, 4000, 4003, 7000, 9000}));
  EXPECT_EQ(numbers(kept.longest_runs(10)), (std::vector<std::uint64_t>{500, 7000}));
  EXPECT_EQ(numbers(kept.longest_waits(10)), (std::vector<std::uint64_t>{9000}));
  const auto failures = kept.failures();
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(failures[0].error_output, "error 4000");
  EXPECT_EQ(failures[1].error_output, "error 4003");
}

TEST(KeptAttempts, OneThatIsKeptForSeveralReasonsIsThereOnce) {
  KeptAttempts kept({});
  kept.add(attempt(1, 1s, 1s, AttemptOutcome::kFailed));
  EXPECT_EQ(kept.all().size(), 1U);
  EXPECT_EQ(kept.longest_runs(5).front(), kept.all().front());
}

TEST(KeptAttempts, OneThatDidNotWaitIsNotAmongThoseThatWaitedLongest) {
  KeptAttempts kept({});
  kept.add(attempt(1, 0ms, 1s));
  EXPECT_TRUE(kept.longest_waits(5).empty());
}

TEST(KeptAttempts, KeepNothingIfTheirBoundsAreZero) {
  KeptAttempts kept(
      {.first = 0, .longest_runs = 0, .longest_waits = 0, .first_failures = 0, .last_failures = 0});
  for (int i = 1; i <= 10; ++i) kept.add(attempt(i, 1s, 1s, AttemptOutcome::kFailed));
  EXPECT_TRUE(kept.all().empty());
}

}  // namespace
}  // namespace keyway
