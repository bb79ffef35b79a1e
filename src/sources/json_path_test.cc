#include "keyway/json_path.h"

#include <gtest/gtest.h>

namespace keyway {
namespace {

using Found = std::optional<std::string>;

Found find(std::string_view path, std::string_view json) {
  const Result<JsonPath> parsed = JsonPath::parse(path);
  EXPECT_TRUE(parsed.ok()) << path;
  const Result<Found> found = parsed->find(json);
  EXPECT_TRUE(found.ok()) << json << ": " << (found ? "" : found.error().message);
  return found ? *found : Found("an error");
}

std::string error_of(std::string_view path, std::string_view json) {
  const Result<Found> found = JsonPath::parse(path)->find(json);
  if (found) return "none: " + found->value_or("nothing");
  EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
  return found.error().message;
}

TEST(JsonPath, FindsFieldsAndPlacesOfArrays) {
  const std::string json =
      R"( {"id":1, "user" : "u7","order":{"customer":"c1","items":[{"id":"a"},{"id":"b"}]}} )";
  EXPECT_EQ(find(".user", json), "u7");
  EXPECT_EQ(find(".order.customer", json), "c1");
  EXPECT_EQ(find(".order.items[1].id", json), "b");
  EXPECT_EQ(find(".[\"order\"][\"items\"][0].id", json), "a");
  EXPECT_EQ(find(".[1]", "[10,20]"), "20");
  EXPECT_EQ(find(".[0][1]", "[[1,2],3]"), "2");
}

TEST(JsonPath, GivesTextsUnescapedAndAllElseAsWritten) {
  EXPECT_EQ(find(".k", R"({"k":"a\"b\u00e9\n"})"), "a\"b\xc3\xa9\n");
  EXPECT_EQ(find(".k", R"({"k":""})"), "");
  EXPECT_EQ(find(".k", R"({"k": 1.50e+3 })"), "1.50e+3");
  EXPECT_EQ(find(".k", R"({"k":123456789012345678901234567890})"),
            "123456789012345678901234567890");
  EXPECT_EQ(find(".k", R"({"k":-0})"), "-0");
  EXPECT_EQ(find(".k", R"({"k":true})"), "true");
  EXPECT_EQ(find(".k", R"({"k":false,"l":1})"), "false");
  EXPECT_EQ(find(".k", R"({"k": {"a": [1, 2]} , "l":1})"), R"({"a": [1, 2]})");
  EXPECT_EQ(find(".k", R"({"k":[ ] ,"l":1})"), "[ ]");
}

TEST(JsonPath, TheDotAloneIsTheWholeValue) {
  EXPECT_EQ(find(".", R"( {"a":1} )"), R"({"a":1})");
  EXPECT_EQ(find(".", R"("te\txt")"), "te\txt");
  EXPECT_EQ(find(".", " \"text\" "), "text");
  EXPECT_EQ(find(".", " 42 "), "42");
  EXPECT_EQ(find(".", "true"), "true");
  EXPECT_EQ(find(".", "null"), std::nullopt);
  EXPECT_EQ(find(".", "[]"), "[]");
}

TEST(JsonPath, WhatIsAbsentOrNullOrOfAnotherTypeIsNothing) {
  EXPECT_EQ(find(".user", "{}"), std::nullopt);
  EXPECT_EQ(find(".user", R"({"user":null})"), std::nullopt);
  EXPECT_EQ(find(".user", R"({"users":1})"), std::nullopt);
  EXPECT_EQ(find(".a.b", R"({"a":"b"})"), std::nullopt);
  EXPECT_EQ(find(".a.b", R"({"a":null})"), std::nullopt);
  EXPECT_EQ(find(".a[2]", R"({"a":[1,2]})"), std::nullopt);
  EXPECT_EQ(find(".a[0]", R"({"a":{}})"), std::nullopt);
  EXPECT_EQ(find(".a", "[1]"), std::nullopt);
  EXPECT_EQ(find(".a", "42"), std::nullopt);
  EXPECT_EQ(find(".a", R"("text")"), std::nullopt);
}

TEST(JsonPath, ANameMayBeWrittenWithEscapes) {
  EXPECT_EQ(find(".user", R"({"x":"\\","\u0075ser":"u7"})"), "u7");
  EXPECT_EQ(find(R"(.["a\"b"].c)", R"({"a\"b":{"\u0063":"x"}})"), "x");
  EXPECT_EQ(find(R"(.["a.b"])", R"({"a.b":1})"), "1");
  EXPECT_EQ(find(".user", R"({"x":"\\"})"), std::nullopt);
}

TEST(JsonPath, OfANameThatComesTwiceTheFirstCounts) {
  EXPECT_EQ(find(".a", R"({"a":1,"a":2})"), "1");
}

TEST(JsonPath, WhatIsNotJsonIsAnErrorThatSaysWhy) {
  EXPECT_EQ(error_of(".user", ""), "not JSON: it is empty");
  EXPECT_EQ(error_of(".user", "  "), "not JSON: it is empty");
  EXPECT_EQ(error_of(".user", "hello"), "not JSON: \"hello\" is no value");
  EXPECT_EQ(error_of(".", "hello world"), "not JSON: \"hello\" is no value");
  EXPECT_EQ(error_of(".user", "2026-01-01 ERROR disk"), "not JSON: \"2026-01-01\" is no value");
  EXPECT_EQ(error_of(".user", "42 43"), "not JSON: \"42 43\" is no value");
  EXPECT_EQ(error_of(".user", R"({"user":"a)"), "not JSON: a string has no end");
  EXPECT_EQ(error_of(".user", R"({"user":"a")"),
            "not JSON: a closing brace or bracket is missing at its end");
  EXPECT_EQ(error_of(".user", R"({"user":"a"} x)"),
            "not JSON: a closing brace or bracket is missing at its end");
  EXPECT_EQ(error_of(".user", "{\"user\":\"\xff\"}"), "not JSON: it is not UTF-8");
  EXPECT_EQ(error_of(".user", R"({"user":12ab})"), "not JSON: \"12ab\" is no value");
  EXPECT_EQ(error_of(".user", R"({"user":01})"), "not JSON: \"01\" is no value");
  EXPECT_EQ(error_of(".user", R"({"user":tru})"), "not JSON: \"tru\" is no value");
  EXPECT_EQ(error_of(".user", R"({"user":"a\qb"})"),
            "not JSON: a string has an escape that does not exist");
  EXPECT_EQ(error_of(".user", R"({"a" 1,"user":2})"),
            "not JSON: a comma, a colon, a bracket or a value is not where it should be");
}

TEST(JsonPath, ManyTextsOfAllSizesOneAfterTheOther) {
  for (const std::size_t size : {0, 10, 63, 64, 65, 5000, 3'000'000, 100, 70'000}) {
    const std::string text(size, 'x');
    EXPECT_EQ(find(".b", "{\"a\":\"" + text + "\",\"b\":\"" + text + "\"}"), text);
  }
}

TEST(JsonPath, WhatIsNoPathIsRefusedWithWhereAndWhy) {
  const auto message = [](std::string_view text) {
    const Result<JsonPath> parsed = JsonPath::parse(text);
    if (parsed) return std::string("parsed");
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    return parsed.error().message;
  };
  EXPECT_EQ(message("user"),
            "no JSON path: \"user\", at character 1: it must begin with a dot\n  try: .user");
  for (const char* const text : {"user[", "a..b", "a]", ""}) {
    EXPECT_TRUE(message(text).ends_with("at character 1: it must begin with a dot\n  try: .name"))
        << message(text);
  }
  EXPECT_TRUE(message("[0]").ends_with("try: .[0]")) << message("[0]");
  EXPECT_EQ(message(".a..b"),
            "no JSON path: \".a..b\", at character 4: a name is missing\n"
            "  try: .name, or .[\"a.name\"]");
  EXPECT_EQ(message(".a[x]"),
            "no JSON path: \".a[x]\", at character 4: a number from 0, or a name in quotes, must "
            "stand in brackets\n  try: .items[0]");
  for (const char* const text : {"", ".a.", ".a[", ".a[0", ".a[-1]", ".a[0]b", ".[\"x]", ".[\"x\"",
                                 "..", ".a]", ".a\"b", "a.b", ".a[99999999999999999999]"}) {
    EXPECT_NE(message(text), "parsed") << text;
  }
}

}  // namespace
}  // namespace keyway
