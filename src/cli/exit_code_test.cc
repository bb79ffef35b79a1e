#include "cli/exit_code.h"

#include <map>

#include <gtest/gtest.h>

#include "support/batch_exit_code.h"

namespace keyway::cli {
namespace {

int code_of(jobs::Ending ending, std::uint64_t failed) {
  jobs::Summary summary;
  summary.ending = ending;
  summary.failed = failed;
  return static_cast<int>(cli::exit_code(summary));
}

TEST(ExitCode, OfARunSaysHowItEnded) {
  EXPECT_EQ(code_of(jobs::Ending::kFinished, 0), 0);
  EXPECT_EQ(code_of(jobs::Ending::kFinished, 3), 1);
  EXPECT_EQ(code_of(jobs::Ending::kStoreFailed, 0), 3);
  EXPECT_EQ(code_of(jobs::Ending::kInputFailed, 0), 3);
  EXPECT_EQ(code_of(jobs::Ending::kOutputClosed, 0), 3);
  EXPECT_EQ(code_of(jobs::Ending::kHalted, 3), 4);
  EXPECT_EQ(code_of(jobs::Ending::kInterrupted, 0), 130);
  EXPECT_EQ(code_of(jobs::Ending::kTerminated, 3), 143);
}

TEST(ExitCode, OfARunThatFailedFollowsWhatFailed) {
  jobs::Summary summary;
  summary.ending = jobs::Ending::kInputFailed;
  summary.failure = Error{ErrorCode::kConflict, "another job"};
  EXPECT_EQ(cli::exit_code(summary), ExitCode::kState);
  summary.failure = Error{ErrorCode::kInvalidArgument, "a wrong line"};
  EXPECT_EQ(cli::exit_code(summary), ExitCode::kUsage);
  summary.ending = jobs::Ending::kStoreFailed;
  summary.failure = Error{ErrorCode::kIo, "full"};
  EXPECT_EQ(cli::exit_code(summary), ExitCode::kResumable);
}

TEST(ExitCode, IsWhatTheTestsOfTheEngineExpect) {
  using jobs::Ending;
  for (const Ending ending :
       {Ending::kFinished, Ending::kHalted, Ending::kInterrupted, Ending::kTerminated,
        Ending::kStoreFailed, Ending::kInputFailed, Ending::kOutputClosed}) {
    for (const auto& failure : {std::optional<Error>(), std::optional(Error{ErrorCode::kIo, ""}),
                                std::optional(Error{ErrorCode::kConflict, ""}),
                                std::optional(Error{ErrorCode::kInvalidArgument, ""})}) {
      jobs::Summary summary;
      summary.ending = ending;
      summary.failure = failure;
      EXPECT_EQ(static_cast<int>(cli::exit_code(summary)), batch::exit_code(summary));
    }
  }
}

TEST(ExitCode, OfAnErrorFollowsItsKind) {
  EXPECT_EQ(exit_code(ErrorCode::kInvalidArgument), ExitCode::kUsage);
  EXPECT_EQ(exit_code(ErrorCode::kIo), ExitCode::kResumable);
  EXPECT_EQ(exit_code(ErrorCode::kConflict), ExitCode::kState);
  EXPECT_EQ(exit_code(ErrorCode::kRejected), ExitCode::kNotAcquired);
  EXPECT_EQ(exit_code(ErrorCode::kShutdown), ExitCode::kOwnFailure);
}

TEST(ExitCode, EveryCodeOfTheTableHasOneMeaningInAscendingOrder) {
  int last = -1;
  std::map<int, std::string_view> codes;
  for (const ExitMeaning& row : exit_meanings()) {
    EXPECT_GT(static_cast<int>(row.code), last);
    last = static_cast<int>(row.code);
    codes[last] = row.meaning;
    EXPECT_EQ(meaning(row.code), row.meaning);
  }
  for (const int code : {0, 1, 2, 3, 4, 5, 75, 124, 125, 126, 127, 130, 143}) {
    EXPECT_TRUE(codes.contains(code)) << code;
  }
}

}  // namespace
}  // namespace keyway::cli
