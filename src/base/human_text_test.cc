#include "base/human_text.h"

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;

TEST(HumanText, NumbersHaveSeparatorsBetweenThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(HumanText, ADurationIsInTheUnitThatFits) {
  EXPECT_EQ(human_duration(0us), "0 us");
  EXPECT_EQ(human_duration(-5us), "0 us");
  EXPECT_EQ(human_duration(850us), "850 us");
  EXPECT_EQ(human_duration(1500us), "1.5 ms");
  EXPECT_EQ(human_duration(71ms), "71 ms");
  EXPECT_EQ(human_duration(2100ms), "2.1 s");
  EXPECT_EQ(human_duration(23940ms), "23.9 s");
  EXPECT_EQ(human_duration(252s), "4m 12s");
  EXPECT_EQ(human_duration(3h + 5min), "3h 5m");
  EXPECT_EQ(human_duration(52h), "2d 4h");
}

TEST(HumanText, ADurationIsNeverRoundedToAFullNextUnit) {
  EXPECT_EQ(human_duration(999us), "999 us");
  EXPECT_EQ(human_duration(9960us), "10 ms");
  EXPECT_EQ(human_duration(999600us), "1.0 s");
  EXPECT_EQ(human_duration(59960ms), "1m 0s");
  EXPECT_EQ(human_duration(3599600ms), "1h 0m");
  EXPECT_EQ(human_duration(23h + 59min + 45s), "1d 0h");
}

}  // namespace
}  // namespace keyway
