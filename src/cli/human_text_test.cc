#include "cli/human_text.h"

#include <gtest/gtest.h>

namespace keyway::cli {
namespace {

using namespace std::chrono_literals;

TEST(HumanText, OneIsSingularAndAllElsePlural) {
  EXPECT_EQ(counted(0, "job"), "0 jobs");
  EXPECT_EQ(counted(1, "job"), "1 job");
  EXPECT_EQ(counted(1204, "group"), "1,204 groups");
  EXPECT_EQ(counted(2, "try", "tries"), "2 tries");
}

TEST(HumanText, WhatIsLeftReadsAsAClock) {
  EXPECT_EQ(clock_duration(9s), "0:09");
  EXPECT_EQ(clock_duration(760s), "12:40");
  EXPECT_EQ(clock_duration(1h + 2min + 3s), "1:02:03");
  EXPECT_EQ(clock_duration(76h + 5min + 6s), "3d 4:05:06");
}

TEST(HumanText, ARateHasAFractionOnlyWhenItIsSmall) {
  EXPECT_EQ(human_rate(0), "0/s");
  EXPECT_EQ(human_rate(0.34), "0.3/s");
  EXPECT_EQ(human_rate(9.96), "10/s");
  EXPECT_EQ(human_rate(418.2), "418/s");
  EXPECT_EQ(human_rate(12400), "12,400/s");
}

TEST(HumanText, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("müll"), 4);
  EXPECT_EQ(display_width("日本"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
}

TEST(HumanText, WhatIsCutFitsAndSaysSo) {
  EXPECT_EQ(shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(shorten("abcdefg", 6), "abc...");
  EXPECT_EQ(shorten_front("abcdefg", 6), "...efg");
  EXPECT_EQ(shorten("日本語です", 6), "日...");
  EXPECT_EQ(shorten("abc", 0), "");
}

TEST(HumanText, NothingPrintableCanSteerATerminal) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable("a\nb\tc\r"), "a\\nb\\tc\\x0d");
  EXPECT_EQ(printable("mü"), "mü");
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // the one-character form of ESC [
}

TEST(HumanText, LinesBreakAtSpacesAndKeepTheirIndent) {
  EXPECT_EQ(wrapped("one two three", 9, 0), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 9, 4), "one\n    two\n    three");
  EXPECT_EQ(wrapped("unbreakable", 4, 0), "unbreakable");
}

}  // namespace
}  // namespace keyway::cli
