#include "base/quoted.h"

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

}  // namespace
}  // namespace keyway
