#include "cli/json_text.h"

#include <vector>

#include <gtest/gtest.h>

namespace keyway::cli {
namespace {

TEST(JsonText, EverythingThatMustBeIsEscaped) {
  EXPECT_EQ(json_quoted("a\"b\\c\nd\x01"), R"("a\"b\\c\nd\u0001")");
  EXPECT_EQ(json_quoted("mü"), "\"mü\"");
  EXPECT_EQ(json_quoted("\xff!"), "\"\xef\xbf\xbd!\"");
}

TEST(JsonText, AnObjectKeepsTheOrderOfItsMembers) {
  JsonObject inner;
  inner.add("x", 1.5);
  JsonObject object;
  object.add("b", 2).add("a", "text").add("inner", inner).add("yes", true).add_null("no");
  object.add("list", std::vector<JsonObject>{inner, inner});
  EXPECT_EQ(object.text(), R"({"b":2,"a":"text","inner":{"x":1.500},"yes":true,"no":null,)"
                           R"("list":[{"x":1.500},{"x":1.500}]})");
}

}  // namespace
}  // namespace keyway::cli
