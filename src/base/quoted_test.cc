#include "base/quoted.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace keyway {
namespace {

TEST(Quoted, LeavesPlainTextAsItIs) {
  EXPECT_EQ(quoted(""), "\"\"");
  EXPECT_EQ(quoted("tenant-7 \u00e4"), "\"tenant-7 \u00e4\"");
}

TEST(Quoted, KeepsAnyTextOnOneLine) {
  EXPECT_EQ(quoted(std::string_view("a\nb\0c\t\x7f", 7)), R"("a\nb\x00c\t\x7f")");
  EXPECT_EQ(quoted(R"(say "hi" \)"), R"("say \"hi\" \\")");
}

TEST(Quoted, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(quoted("a\xff\xfe"
                   "b"),
            R"("a\xff\xfeb")");
  EXPECT_EQ(quoted("\xc3"), R"("\xc3")") << "cut short";
  EXPECT_EQ(quoted("\xc0\xaf"), R"("\xc0\xaf")") << "overlong";
  EXPECT_EQ(quoted("\xe0\x80\xaf"), R"("\xe0\x80\xaf")") << "overlong";
  EXPECT_EQ(quoted("\xed\xa0\x80"), R"("\xed\xa0\x80")") << "a surrogate";
  EXPECT_EQ(quoted("\xf4\x90\x80\x80"), R"("\xf4\x90\x80\x80")") << "beyond U+10FFFF";
  EXPECT_EQ(quoted("\xc2\x9b"), R"("\xc2\x9b")") << "a control character";
  const std::string_view valid = "\u00a0\u07ff\u0800\ud7ff\uffff\U00010000\U0010ffff";
  EXPECT_EQ(quoted(valid), '"' + std::string(valid) + '"');
}

TEST(Quoted, ShortensALongText) {
  const std::string hundred(100, 'k');
  const std::string long_text(5000, 'k');
  EXPECT_EQ(quoted(std::string_view(hundred)), '"' + hundred + '"');
  EXPECT_EQ(quoted(std::string_view(long_text)), '"' + hundred + "...\" (5,000 bytes)");
  EXPECT_EQ(escaped(long_text), hundred + "...");
  const std::string cut = std::string(99, 'k') + "\u00e4";
  const std::string longer = cut + "b";
  EXPECT_EQ(quoted(std::string_view(longer)), '"' + cut + "...\" (102 bytes)")
      << "not within a character";
}

}  // namespace
}  // namespace keyway
