#include "base/time_text.h"

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono;

std::string text_of(system_clock::time_point time) {
  std::string text;
  append_time(text, time);
  return text;
}

TEST(TimeText, IsUtcToTheMillisecond) {
  EXPECT_EQ(text_of({}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(text_of(sys_days(2026y / November / 15) + 11h + 7min + 43s + 120999us),
            "2026-11-15T11:07:43.120Z");
  EXPECT_EQ(text_of(sys_days(2024y / February / 29) + 23h + 59min + 59s + 999ms),
            "2024-02-29T23:59:59.999Z");
}

TEST(TimeText, IsReadAsItWasWritten) {
  const auto time = sys_days(2026y / November / 15) + 11h + 7min + 43s + 120ms;
  EXPECT_EQ(parse_time(text_of(time)), time);
  EXPECT_EQ(parse_time("1970-01-01T00:00:00.000Z"), system_clock::time_point());
}

TEST(TimeText, WhatIsOfAnotherFormIsNotRead) {
  for (const char* text :
       {"", "2026-11-15", "2026-11-15T11:07:43Z", "2026-11-15 11:07:43.120Z",
        "2026-13-15T11:07:43.120Z", "2026-02-30T11:07:43.120Z", "2026-11-15T24:07:43.120Z",
        "2026-11-15T11:07:43.1x0Z", "2026-11-15T11:07:43.120+"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

}  // namespace
}  // namespace keyway
