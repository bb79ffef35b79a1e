#include "keyway/keyed_calls.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "serial/serial_fixture.h"

namespace keyway {
namespace {

class KeyedCallsTest : public ::testing::TestWithParam<SerialMode> {
 protected:
  KeyedCalls calls_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Mode, KeyedCallsTest,
                         ::testing::Values(SerialMode::kBasic, SerialMode::kWorkerQueue),
                         [](const auto& mode) {
                           return mode.param == SerialMode::kBasic ? "Basic" : "WorkerQueue";
                         });

TEST_P(KeyedCallsTest, GivesTheSameInBothModes) {
  EXPECT_EQ(*calls_.call("a", [] { return 42; }), 42);
  EXPECT_TRUE(calls_.call("a", [] {}).ok());
  EXPECT_EQ(*calls_.call("a", []() -> Result<int> { return 1; }), 1);
  const Result<int> stale =
      calls_.call("a", []() -> Result<int> { return Error{ErrorCode::kConflict, "stale"}; });
  EXPECT_EQ(stale.error().code, ErrorCode::kConflict);
  EXPECT_FALSE(*calls_.call("a", [](std::stop_token stop) { return stop.stop_requested(); }));
  EXPECT_THROW((void)calls_.call("a", [] { throw 42; }), int);
  EXPECT_THROW((void)calls_.call("", [] {}), Exception);
  EXPECT_THROW((void)calls_.call("a", std::function<void()>()), Exception);
}

TEST_P(KeyedCallsTest, ACallMayCallAgainForTheSameKey) {
  EXPECT_EQ(*calls_.call("a", [&] { return *calls_.call("a", [] { return 7; }) + 1; }), 8);
}

TEST(KeyedCalls, InBasicModeThereIsNoDispatcherAndNoThread) {
  const std::ptrdiff_t before = thread_count();
  KeyedCalls calls(SerialMode::kBasic);
  EXPECT_LE(thread_count(), before);
  EXPECT_EQ(calls.dispatcher(), nullptr);
  EXPECT_EQ(*calls.call("a", [] { return std::this_thread::get_id(); }),
            std::this_thread::get_id());
}

TEST(KeyedCalls, InWorkerQueueModeAKeyNeverInterleaves) {
  KeyedCalls calls(SerialMode::kWorkerQueue, {.workers = 4});
  int inside = 0;
  int count = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        EXPECT_TRUE(calls.call("a", [&] {
          EXPECT_EQ(++inside, 1);
          ++count;
          --inside;
        }));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(count, 800);
  EXPECT_EQ(calls.dispatcher()->stats().succeeded, 800U);
}

TEST(KeyedCalls, WrongOptionsAreRefusedInEitherMode) {
  EXPECT_THROW(KeyedCalls(SerialMode::kBasic, {.workers = 0}), Exception);
  EXPECT_THROW(KeyedCalls(SerialMode::kWorkerQueue, {.workers = 0}), Exception);
}

TEST(KeyedCalls, ModesAndOptionsArePrintedByName) {
  EXPECT_EQ(testing::PrintToString(SerialMode::kWorkerQueue), "worker-queue");
  EXPECT_EQ(testing::PrintToString(OnFull::kFailFast), "fail_fast");
  EXPECT_EQ(testing::PrintToString(OnFull::kCallerRuns), "caller_runs");
  EXPECT_EQ(testing::PrintToString(Routing::kPerKey), "per_key");
  EXPECT_EQ(testing::PrintToString(Routing::kSticky), "sticky");
}

TEST(KeyedCalls, TheModeIsReadFromItsName) {
  EXPECT_EQ(*parse_serial_mode("basic"), SerialMode::kBasic);
  EXPECT_EQ(*parse_serial_mode("worker-queue"), SerialMode::kWorkerQueue);
  const Result<SerialMode> wrong = parse_serial_mode("queue");
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(wrong.error().message.find("\"queue\""), std::string::npos);
}

}  // namespace
}  // namespace keyway
