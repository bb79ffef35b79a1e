#include "handlers/http_answer.h"

#include <gtest/gtest.h>

namespace keyway::run {
namespace {

using namespace std::chrono_literals;

const std::chrono::system_clock::time_point kNow =
    std::chrono::sys_days(std::chrono::year(1994) / 11 / 6) + 8h + 49min + 37s;

TEST(RetryAfter, IsSecondsOrADate) {
  EXPECT_EQ(parse_retry_after("0", kNow), 0s);
  EXPECT_EQ(parse_retry_after("120", kNow), 120s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:38 GMT", kNow), 1s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 09:00:00 GMT", kNow), 10min + 23s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:00:00 GMT", kNow), 0s) << "it is over";
}

TEST(RetryAfter, IsAnHourAtMost) {
  EXPECT_EQ(parse_retry_after("3601", kNow), 1h);
  EXPECT_EQ(parse_retry_after("99999999999999999999", kNow), 1h);
  EXPECT_EQ(parse_retry_after("Mon, 07 Nov 2994 08:49:37 GMT", kNow), 1h);
}

TEST(RetryAfter, WhatIsNeitherSaysNothing) {
  for (const char* text :
       {"", "soon", "-1", "1.5", "Sun, 06 Nov 1994 08:49:38 CET", "Sun, 31 Feb 1994 08:49:38 GMT",
        "Sun, 06 Xov 1994 08:49:38 GMT", "Sun, 06 Nov 1994 08:49:3x GMT"}) {
    EXPECT_FALSE(parse_retry_after(text, kNow).has_value()) << text;
  }
}

TEST(HeaderValue, CarriesWhatAHeaderCannot) {
  EXPECT_EQ(header_value("u7"), "u7");
  EXPECT_EQ(header_value("a b"), "a b");
  EXPECT_EQ(header_value(" a "), "%20a%20");
  EXPECT_EQ(header_value("100%"), "100%25");
  EXPECT_EQ(header_value("a\r\nEvil: 1"), "a%0D%0AEvil: 1");
  EXPECT_EQ(header_value("\xc3\xa4\x7f"), "%C3%A4%7F");
  EXPECT_EQ(header_value(std::string_view("\0", 1)), "%00");
}

}  // namespace
}  // namespace keyway::run
