#include "keyway/error.h"

#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace keyway {
namespace {

Error full() { return {ErrorCode::kRejected, "the queue is full", /*retryable=*/true}; }

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

TEST(Exception, ARejectionSaysWhichTaskAndWhy) {
  const RejectedError error("full", "vip", "task-1", RejectionReason::kGlobalQueueFull);
  EXPECT_EQ(error.group_key(), "vip");
  EXPECT_EQ(error.task_id(), "task-1");
  EXPECT_EQ(error.reason(), RejectionReason::kGlobalQueueFull);
  EXPECT_EQ(error.error().group_key, "vip");
  EXPECT_EQ(error.error().task_id, "task-1");
}

TEST(RejectionReason, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const RejectionReason reason :
       {RejectionReason::kQueueFull, RejectionReason::kGlobalQueueFull,
        RejectionReason::kNoRoomInTime, RejectionReason::kStopped, RejectionReason::kWaitCycle,
        RejectionReason::kConflated, RejectionReason::kGroupShutdown, RejectionReason::kShutdown}) {
    names.insert(to_string(reason));
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(names.count("unknown"), 0U);
}

TEST(EnumText, AnEnumerationIsPrintedByItsName) {
  std::ostringstream out;
  out << ErrorCode::kRejected << ' ' << RejectionReason::kShutdown;
  EXPECT_EQ(out.str(), "rejected shutdown");
}

TEST(EnumText, GoogleTestPrintsTheName) {
  EXPECT_EQ(testing::PrintToString(ErrorCode::kWaitCycle), "wait_cycle");
}

}  // namespace
}  // namespace keyway
