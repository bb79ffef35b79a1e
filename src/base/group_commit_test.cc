#include "base/group_commit.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

namespace keyway {
namespace {

TEST(GroupCommit, OneThreadStoresEachEntryAtOnce) {
  std::vector<std::vector<int>> groups;
  GroupCommit<int> commits([&](std::vector<int>& entries) {
    groups.push_back(entries);
    return Result<void>();
  });
  EXPECT_TRUE(commits.add(1));
  EXPECT_TRUE(commits.add(2));
  EXPECT_EQ(groups, (std::vector<std::vector<int>>{{1}, {2}}));
}

// Says when it has come into a group: until then nobody moves it.
struct Arrival {
  explicit Arrival(std::latch* arrived) : arrived_(arrived) {}
  Arrival(Arrival&& other) noexcept : arrived_(std::exchange(other.arrived_, nullptr)) {
    if (arrived_ != nullptr) std::exchange(arrived_, nullptr)->count_down();
  }
  Arrival& operator=(Arrival&&) = delete;

 private:
  std::latch* arrived_;
};

TEST(GroupCommit, ThoseWhoComeMeanwhileShareTheNextCommit) {
  std::latch first_is_stored(1);
  std::latch others_came(8);
  std::vector<std::size_t> sizes;
  GroupCommit<Arrival> commits([&](std::vector<Arrival>& entries) {
    if (sizes.empty()) {
      first_is_stored.count_down();
      others_came.wait();
    }
    sizes.push_back(entries.size());
    return Result<void>();
  });
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(commits.add(Arrival(nullptr))); });
  first_is_stored.wait();
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(commits.add(Arrival(&others_came))); });
  }
  threads.clear();
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 8}));
}

TEST(GroupCommit, AFailureIsThatOfItsOwnGroup) {
  int calls = 0;
  GroupCommit<int> commits([&](std::vector<int>&) -> Result<void> {
    if (++calls == 2) return Error{ErrorCode::kIo, "full"};
    return {};
  });
  EXPECT_TRUE(commits.add(1));
  const Result<void> failed = commits.add(2);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "full");
  EXPECT_TRUE(commits.add(3));
}

TEST(GroupCommit, EveryEntryIsStoredOnceAndInTheOrderOfItsThread) {
  constexpr int kThreads = 8;
  constexpr int kEach = 2000;
  std::vector<std::pair<int, int>> stored;
  std::atomic<int> busy = 0;
  GroupCommit<std::pair<int, int>> commits([&](std::vector<std::pair<int, int>>& entries) {
    EXPECT_EQ(++busy, 1);
    stored.insert(stored.end(), entries.begin(), entries.end());
    --busy;
    return Result<void>();
  });
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kEach; ++i) EXPECT_TRUE(commits.add({thread, i}));
      });
    }
  }
  ASSERT_EQ(stored.size(), static_cast<std::size_t>(kThreads * kEach));
  std::vector<int> next(kThreads);
  for (const auto& [thread, i] : stored) EXPECT_EQ(i, next[static_cast<std::size_t>(thread)]++);
}

}  // namespace
}  // namespace keyway
