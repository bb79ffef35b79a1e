#include "report/human_text.h"

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;

TEST(HumanText, CountsHaveCommas) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(1'234'567), "1,234,567");
}

TEST(HumanText, DurationsHaveThreeDigitsOrSo) {
  EXPECT_EQ(duration_text(0ns), "0 µs");
  EXPECT_EQ(duration_text(850us), "850 µs");
  EXPECT_EQ(duration_text(4500us), "4.5 ms");
  EXPECT_EQ(duration_text(71ms), "71 ms");
  EXPECT_EQ(duration_text(1500ms), "1.50 s");
  EXPECT_EQ(duration_text(23'900ms), "23.9 s");
  EXPECT_EQ(duration_text(107s), "1 m 47 s");
  EXPECT_EQ(duration_text(3h + 5min + 20s), "3 h 05 m");
}

}  // namespace
}  // namespace keyway
