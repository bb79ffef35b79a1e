// Several keys at once: from lists and ranges of any kind.
#include <array>
#include <ranges>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/key_locks.h"
#include "support/memory.h"

namespace keyway {
namespace {

constexpr int kLoops = kSanitized ? 2'000 : 20'000;

TEST(KeyLocks, LockAllNeverGetsIntoACycle) {
  KeyLocks locks;
  int counter = 0;
  const auto count = [&](std::vector<std::string> keys) {
    for (int i = 0; i < kLoops; ++i) {
      const LockSet set = locks.lock_all(keys);
      EXPECT_EQ(set.size(), 2U);
      ++counter;
    }
  };
  std::thread one([&] { count({"a", "b", "a"}); });
  std::thread other([&] { count({"b", "a"}); });
  one.join();
  other.join();
  EXPECT_EQ(counter, 2 * kLoops);
  EXPECT_EQ(locks.active_lock_count(), 0U);
  const LockSet none = locks.lock_all({});
  EXPECT_EQ(none.size(), 0U);
}

// Long enough for a string not to be kept in the string object itself.
std::string long_name(int id) { return "a-project-with-a-long-name-" + std::to_string(id); }

TEST(KeyLocks, LockAllTakesKeysThatTheRangeMakesAsItIsRead) {
  KeyLocks locks;
  const std::vector<int> ids{3, 1, 2, 1};
  const LockSet set = locks.lock_all(ids | std::views::transform(long_name));
  EXPECT_EQ(set.size(), 3U);
  for (const int id : ids) EXPECT_EQ(locks.holders(long_name(id)).size(), 1U) << id;
  EXPECT_EQ(locks.active_lock_count(), 3U);
}

TEST(KeyLocks, LockAllTakesARangeThatCanBeReadOnce) {
  KeyLocks locks;
  std::istringstream text(long_name(2) + " " + long_name(1));
  const LockSet set = locks.lock_all(std::ranges::istream_view<std::string>(text));
  EXPECT_EQ(set.size(), 2U);
  for (const int id : {1, 2}) EXPECT_EQ(locks.holders(long_name(id)).size(), 1U) << id;
}

TEST(KeyLocks, LockAllTakesAFilteredRangeAndAnyKindOfText) {
  KeyLocks locks;
  std::vector<std::string> keys{"a", "", "b"};
  const auto not_empty = [](const std::string& key) { return !key.empty(); };
  EXPECT_EQ(locks.lock_all(keys | std::views::filter(not_empty)).size(), 2U);
  EXPECT_EQ(locks.lock_all(std::array<const char*, 2>{"a", "b"}).size(), 2U);
  EXPECT_EQ(locks.lock_all(std::array<std::string_view, 2>{"a", "b"}).size(), 2U);
  const std::vector<std::string> constant{"a"};
  EXPECT_EQ(locks.lock_all(constant, LockMode::kShared).size(), 1U);
}

}  // namespace
}  // namespace keyway
