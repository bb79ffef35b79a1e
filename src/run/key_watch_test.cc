#include "run/key_watch.h"

#include <gtest/gtest.h>

namespace keyway::run {
namespace {

using namespace std::chrono_literals;

TEST(KeyWatch, AKeyWaitsWhileItHasARecordThatHasNotBegun) {
  KeyWatch keys;
  keys.enter("a");
  keys.enter("a");
  keys.enter("b");
  EXPECT_EQ(keys.seen(), 2u);
  EXPECT_EQ(keys.waiting(), 2u);
  keys.start("a");
  EXPECT_EQ(keys.waiting(), 2u) << "the second one of a waits";
  keys.start("b");
  EXPECT_EQ(keys.waiting(), 1u);
  keys.leave("a", /*started=*/true);
  EXPECT_EQ(keys.waiting(), 1u);
  keys.leave("a", /*started=*/false);
  EXPECT_EQ(keys.waiting(), 0u);
  keys.leave("b", /*started=*/true);
  keys.enter("b");
  EXPECT_EQ(keys.seen(), 2u);
  EXPECT_EQ(keys.waiting(), 1u);
}

TEST(KeyWatch, TheKeyWhoseTriesTookLongestIsTold) {
  KeyWatch keys;
  EXPECT_FALSE(keys.longest());
  keys.add_time("a", 3s, /*is_last=*/true);
  keys.add_time("b", 2s, /*is_last=*/false);
  keys.add_time("b", 2s, /*is_last=*/true);
  for (int i = 0; i < 10'000; ++i) keys.add_time("k" + std::to_string(i), 1ms, true);
  const auto bound = keys.longest();
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->key, "b");
  EXPECT_EQ(bound->records, 1u);
  EXPECT_EQ(bound->time, 4s);
}

}  // namespace
}  // namespace keyway::run
