#include "cli/common_values.h"

#include <gtest/gtest.h>

namespace keyway::cli {
namespace {

using namespace std::chrono_literals;

TEST(CommonValues, BackoffIsARangeOfTimes) {
  EXPECT_EQ(parse_backoff("500ms..30s")->first, 500ms);
  EXPECT_EQ(parse_backoff("500ms..30s")->most, 30s);
  EXPECT_EQ(parse_backoff("2s")->first, 2s);
  EXPECT_EQ(parse_backoff("2s")->most, 2s);
  for (const char* const wrong : {"", "x", "1s..", "..1s", "5s..1s", "1s..2s..3s", "-1s..2s"}) {
    EXPECT_FALSE(parse_backoff(wrong)) << wrong;
  }
}

TEST(CommonValues, HaltSaysWhenAndAfterHowManyFailures) {
  using When = jobs::Halt::When;
  EXPECT_EQ(parse_halt("never")->when, When::kNever);
  EXPECT_EQ(parse_halt("now,fail=1")->when, When::kNow);
  EXPECT_EQ(parse_halt("soon,fail=3")->when, When::kSoon);
  EXPECT_EQ(parse_halt("soon,fail=3")->fail, 3);
  EXPECT_FALSE(parse_halt("soon,fail=3")->percent);
  EXPECT_TRUE(parse_halt("soon,fail=10%")->percent);
  EXPECT_EQ(parse_halt("soon,fail=10%")->fail, 10);
  for (const char* const wrong :
       {"", "now", "now,", "now,fail=", "now,fail=%", "now,fail=0", "soon,fail=-1",
        "soon,fail=101%", "soon,fail=3x", "later,fail=1", "now,ok=1", "never,fail=1"}) {
    EXPECT_FALSE(parse_halt(wrong)) << wrong;
  }
}

TEST(CommonValues, SizesHaveUnits) {
  EXPECT_EQ(*parse_size("4096"), 4096u);
  EXPECT_EQ(*parse_size("256MiB"), std::size_t{256} << 20);
  EXPECT_EQ(*parse_size("10MB"), 10'000'000u);
  EXPECT_EQ(*parse_size("1GiB"), std::size_t{1} << 30);
  for (const char* const wrong : {"", "x", "-1", "0", "1.5GiB", "1 MiB", "1TiB", "99999999GiB"}) {
    EXPECT_FALSE(parse_size(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace keyway::cli
