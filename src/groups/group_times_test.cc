// The times in a task's result: when it got its permits, and when it ended.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr Duration kPrecision = 1us;  // as GroupResult says

TEST(GroupTimes, ATaskStartsAfterItIsSubmittedAndEndsBeforeItsResultIsThere) {
  GroupExecutor executor({});
  for (int i = 0; i < 2000; ++i) {
    const TimePoint before = steady_clock::now();
    const auto result = executor.submit("key", "task", [] { return 1; }).join();
    const TimePoint after = steady_clock::now();
    ASSERT_GE(result.started, before - kPrecision) << "task " << i;
    ASSERT_GE(result.ended, result.started) << "task " << i;
    ASSERT_LE(result.ended, after + kPrecision) << "task " << i;
  }
}

TEST(GroupTimes, TheTimesOfASerialGroupsTasksDoNotOverlap) {
  constexpr std::size_t kTasks = 100'000;
  constexpr std::size_t kGroups = 3;
  GroupExecutor executor({}, {.threads = 4});
  std::vector<TaskHandle<void>> handles;
  for (std::size_t i = 0; i < kTasks; ++i) {
    handles.push_back(executor.submit("key-" + std::to_string(i % kGroups), "task", [i] {
      // Some are long enough for another thread to take the group over.
      const TimePoint until = steady_clock::now() + (i % 50 == 0 ? 20us : 0us);
      while (steady_clock::now() < until) {
      }
    }));
  }
  std::vector<TimePoint> last_ended(kGroups);
  Duration worst{0};
  for (std::size_t i = 0; i < kTasks; ++i) {
    const auto result = handles[i].join();
    worst = std::max(worst, last_ended[i % kGroups] - result.started);
    last_ended[i % kGroups] = result.ended;
  }
  EXPECT_LE(worst, kPrecision) << "to the reader of the results, two ran at once";
}

}  // namespace
}  // namespace keyway
