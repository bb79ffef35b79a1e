// What keys and waiting tasks cost, measured as the system counts it.
#include <chrono>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/detail/block_pool.h"
#include "keyway/group_executor.h"

namespace keyway {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEYWAY_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEYWAY_SANITIZED 1
#endif
#endif

#if defined(KEYWAY_SANITIZED)
#define KEYWAY_SKIP_IF_SANITIZED() \
  GTEST_SKIP() << "SKIPPED: under a sanitizer memory is not recycled, and weighs more"
#else
#define KEYWAY_SKIP_IF_SANITIZED() static_cast<void>(0)
#endif

constexpr std::size_t kMillion = 1'000'000;
constexpr std::size_t kMegabyte = 1'000'000;

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages_in_all = 0;
  std::size_t pages_resident = 0;
  statm >> pages_in_all >> pages_resident;
  return pages_resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Memory goes back when the workers have had nothing to do for a moment: it is waited for, with a
// bound, and the last measure is given.
std::size_t resident_bytes_once_at_most(std::size_t wanted) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (resident_bytes() > wanted && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  return resident_bytes();
}

void use_keys(GroupExecutor& executor, std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    ASSERT_TRUE(executor.post("key-" + std::to_string(i), [] {}).ok());
  }
  while (executor.stats().succeeded < first + count) std::this_thread::yield();
}

TEST(GroupMemory, AMillionKeysSeenOnceLeaveNothingBehind) {
  KEYWAY_SKIP_IF_SANITIZED();
  GroupExecutor executor({});
  use_keys(executor, 0, 10'000);  // what every program has: stacks, the first slabs, warm lanes
  const std::size_t before = resident_bytes();
  use_keys(executor, 10'000, kMillion);
  const std::size_t after = resident_bytes_once_at_most(before + 2 * kMegabyte);
  EXPECT_LE(after, before + 2 * kMegabyte) << "before " << before << ", after " << after;
  EXPECT_TRUE(executor.active_group_keys().empty());
}

TEST(GroupMemory, AWaitingTaskWithItsHandleCostsAtMost128Bytes) {
  KEYWAY_SKIP_IF_SANITIZED();
  GroupExecutor executor({});
  std::latch go(1);
  auto first = executor.submit("tenant-1", "first", [&] { go.wait(); });
  const std::size_t before = resident_bytes();
  std::vector<TaskHandle<std::size_t>> handles;
  handles.reserve(kMillion);
  for (std::size_t i = 0; i < kMillion; ++i) {
    handles.push_back(executor.submit("tenant-1", std::to_string(i), [i] { return i; }));
  }
  const std::size_t cost = (resident_bytes() - before) / kMillion;
  RecordProperty("bytes_per_waiting_task", static_cast<int>(cost));
  EXPECT_LE(cost, 128U);
  EXPECT_EQ(executor.group_stats("tenant-1").waiting, kMillion);
  go.count_down();
  for (std::size_t i = 0; i < kMillion; ++i) ASSERT_EQ(handles[i].join().value(), i);
}

TEST(GroupMemory, AMillionFinishedTasksGiveTheirMemoryBack) {
  KEYWAY_SKIP_IF_SANITIZED();
  GroupExecutor executor({});
  use_keys(executor, 0, 10'000);
  const std::size_t before = resident_bytes();
  {
    std::latch go(1);
    auto first = executor.submit("tenant-1", "first", [&] { go.wait(); });
    for (std::size_t i = 0; i < kMillion; ++i) {
      ASSERT_TRUE(executor.post("tenant-1", [] {}).ok());
    }
    go.count_down();
    EXPECT_TRUE(first.join().ok());
  }
  const std::size_t after = resident_bytes_once_at_most(before + 2 * kMegabyte);
  EXPECT_LE(after, before + 2 * kMegabyte) << "before " << before << ", after " << after;
}

TEST(GroupMemory, HandlesThatAreDroppedWhenNobodyWorksAnyMoreGiveTheirMemoryBack) {
  KEYWAY_SKIP_IF_SANITIZED();
  GroupExecutor executor({});
  use_keys(executor, 0, 10'000);
  detail::trim_blocks();  // what other tests have left
  std::vector<TaskHandle<void>> handles(kMillion);
  for (TaskHandle<void>& handle : handles) handle = TaskHandle<void>();
  const std::size_t before = resident_bytes();
  for (TaskHandle<void>& handle : handles) handle = executor.submit("tenant-1", "task", [] {});
  EXPECT_TRUE(handles.back().join().ok());
  EXPECT_GT(resident_bytes(), before + 70 * kMegabyte);
  std::this_thread::sleep_for(2 * detail::kBlocksKept);  // the workers have gone to sleep
  for (TaskHandle<void>& handle : handles) handle = TaskHandle<void>();
  EXPECT_LE(resident_bytes(), before + 2 * kMegabyte);
}

}  // namespace
}  // namespace keyway
