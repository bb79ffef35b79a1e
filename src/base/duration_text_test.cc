#include "base/duration_text.h"

#include <gtest/gtest.h>

namespace keyway {
namespace {

using std::chrono::milliseconds;

TEST(DurationText, UnderstandsUnitsAndFractions) {
  EXPECT_EQ(parse_duration("500ms").value(), milliseconds(500));
  EXPECT_EQ(parse_duration("30s").value(), milliseconds(30'000));
  EXPECT_EQ(parse_duration("1.5m").value(), milliseconds(90'000));
  EXPECT_EQ(parse_duration("2h").value(), milliseconds(7'200'000));
  EXPECT_EQ(parse_duration("0").value(), milliseconds(0));
}

TEST(DurationText, APlainNumberIsSeconds) {
  EXPECT_EQ(parse_duration("2").value(), milliseconds(2000));
  EXPECT_EQ(parse_duration("0.25").value(), milliseconds(250));
}

TEST(DurationText, WhatIsNotZeroDoesNotBecomeZero) {
  EXPECT_EQ(parse_duration("0.0001ms").value(), milliseconds(1));
}

TEST(DurationText, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "ms", "-1s", "-0", "1d", "5 s", "nan", "inf", "1e3", "1s2", "1e400",
                           "99999999999h", "0x10"}) {
    const auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().message.find('"' + std::string(text) + '"'), std::string::npos);
  }
}

}  // namespace
}  // namespace keyway
