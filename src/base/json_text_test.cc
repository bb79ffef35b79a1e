#include "base/json_text.h"

#include <gtest/gtest.h>

namespace keyway {
namespace {

std::string quoted(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

TEST(JsonText, EscapesWhatJsonMustNotContain) {
  EXPECT_EQ(quoted("plain"), "\"plain\"");
  EXPECT_EQ(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(quoted(std::string_view("\n\t\r\0\x7f", 5)), "\"\\n\\t\\u000d\\u0000\\u007f\"");
}

TEST(JsonText, LeavesOtherLettersAlone) { EXPECT_EQ(quoted("zürich €"), "\"zürich €\""); }

}  // namespace
}  // namespace keyway
