#include "stream/ended_keys.h"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using Keys = std::vector<std::size_t>;

TEST(EndedKeys, AreGivenOnceEachInTheOrderOfTheFirstEnd) {
  EndedKeys keys;
  for (const std::size_t key : {1, 2, 3}) EXPECT_TRUE(keys.watch(key));
  for (const std::size_t key : {3, 1, 3, 2, 1}) keys.ended(key);
  EXPECT_EQ(keys.take(), (Keys{3, 1, 2}));
  EXPECT_EQ(keys.take(), Keys{});
}

TEST(EndedKeys, EndsOfKeysThatAreNotWatchedAreNotKept) {
  EndedKeys keys;
  keys.ended(1);
  EXPECT_TRUE(keys.watch(1));
  EXPECT_FALSE(keys.watch(1));
  keys.ended(2);
  EXPECT_EQ(keys.take(), Keys{});
  keys.ended(1);
  keys.watch_none();
  keys.ended(1);
  EXPECT_EQ(keys.take(), Keys{});
  EXPECT_TRUE(keys.watch(1));
}

}  // namespace
}  // namespace keyway
