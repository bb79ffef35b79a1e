#include "base/suggest.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace keyway {
namespace {

constexpr std::array<std::string_view, 6> kKnown{"cmd", "cwd", "group", "timeout", "retries", "sh"};

TEST(Suggest, CountsEdits) {
  EXPECT_EQ(edit_distance("cmd", "cmd"), 0);
  EXPECT_EQ(edit_distance("", "cmd"), 3);
  EXPECT_EQ(edit_distance("cmnd", "cmd"), 1);
  EXPECT_EQ(edit_distance("timeuot", "timeout"), 1) << "neighbours swapped are one edit";
  EXPECT_EQ(edit_distance("TimeOut", "timeout"), 0);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Suggest, FindsTheNearestWord) {
  EXPECT_EQ(suggest("cmnd", kKnown), "cmd");
  EXPECT_EQ(suggest("tiemout", kKnown), "timeout");
  EXPECT_EQ(suggest("retry", kKnown), "");
  EXPECT_EQ(suggest("retrys", kKnown), "retries");
  EXPECT_EQ(suggest("Group", kKnown), "group");
}

TEST(Suggest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(suggest("banana", kKnown), "");
  EXPECT_EQ(suggest("", kKnown), "");
  EXPECT_EQ(suggest("xy", kKnown), "");
  EXPECT_EQ(suggest(std::string(10'000, 'c'), kKnown), "");
}

}  // namespace
}  // namespace keyway
