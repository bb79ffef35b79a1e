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
#include "support/memory.h"

namespace keyway {
namespace {

constexpr std::size_t kMillion = 1'000'000;
constexpr std::int64_t kMegabyte = 1'000'000;

// Memory goes back when the workers have had nothing to do for a moment: it is waited for, with a
// bound, and the last measure is given.
std::int64_t resident_bytes_once_at_most(std::int64_t wanted) {
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
  const std::int64_t before = resident_bytes();
  use_keys(executor, 10'000, kMillion);
  const std::int64_t after = resident_bytes_once_at_most(before + 2 * kMegabyte);
  EXPECT_LE(after, before + 2 * kMegabyte) << "before " << before << ", after " << after;
  EXPECT_TRUE(executor.active_group_keys().empty());
}

TEST(GroupMemory, AWaitingTaskWithItsHandleCostsAtMost128Bytes) {
  KEYWAY_SKIP_IF_SANITIZED();
  GroupExecutor executor({});
  std::latch go(1);
  auto first = executor.submit("tenant-1", "first", [&] { go.wait(); });
  const std::int64_t before = resident_bytes();
  std::vector<TaskHandle<std::size_t>> handles;
  handles.reserve(kMillion);
  for (std::size_t i = 0; i < kMillion; ++i) {
    handles.push_back(executor.submit("tenant-1", std::to_string(i), [i] { return i; }));
  }
  const std::int64_t cost = (resident_bytes() - before) / static_cast<std::int64_t>(kMillion);
  RecordProperty("bytes_per_waiting_task", static_cast<int>(cost));
  EXPECT_LE(cost, 128);
  EXPECT_EQ(executor.group_stats("tenant-1").waiting, kMillion);
  go.count_down();
  for (std::size_t i = 0; i < kMillion; ++i) ASSERT_EQ(handles[i].join().value(), i);
}

TEST(GroupMemory, AMillionFinishedTasksGiveTheirMemoryBack) {
  KEYWAY_SKIP_IF_SANITIZED();
  GroupExecutor executor({});
  use_keys(executor, 0, 10'000);
  const std::int64_t before = resident_bytes();
  {
    std::latch go(1);
    auto first = executor.submit("tenant-1", "first", [&] { go.wait(); });
    for (std::size_t i = 0; i < kMillion; ++i) {
      ASSERT_TRUE(executor.post("tenant-1", [] {}).ok());
    }
    go.count_down();
    EXPECT_TRUE(first.join().ok());
  }
  const std::int64_t after = resident_bytes_once_at_most(before + 2 * kMegabyte);
  EXPECT_LE(after, before + 2 * kMegabyte) << "before " << before << ", after " << after;
}

TEST(GroupMemory, HandlesThatAreDroppedWhenNobodyWorksAnyMoreGiveTheirMemoryBack) {
  KEYWAY_SKIP_IF_SANITIZED();
  GroupExecutor executor({});
  use_keys(executor, 0, 10'000);
  detail::trim_blocks();  // what other tests have left
  std::vector<TaskHandle<void>> handles(kMillion);
  const std::int64_t before = resident_bytes();
  for (TaskHandle<void>& handle : handles) handle = executor.submit("tenant-1", "task", [] {});
  EXPECT_TRUE(handles.back().join().ok());
  EXPECT_GT(resident_bytes(), before + 70 * kMegabyte);
  std::this_thread::sleep_for(2 * detail::kBlocksKept);  // the workers have gone to sleep
  for (TaskHandle<void>& handle : handles) handle = TaskHandle<void>();
  EXPECT_LE(resident_bytes_once_at_most(before + 2 * kMegabyte), before + 2 * kMegabyte);
}

}  // namespace
}  // namespace keyway
