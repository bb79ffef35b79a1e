#include "report/script_json.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "support/json.h"

namespace keyway {
namespace {

std::string written(std::string_view text) {
  ScriptJson json;
  json.text(text);
  return std::move(json).str();
}

TEST(ScriptJson, WritesWhatAReaderReads) {
  ScriptJson json;
  json.open('{').key("a").open('[').number(1).number(-2.5).text("x").close(']');
  json.key("b").open('{').close('}').key("c").numbers(std::vector<int>{7, 8}).close('}');
  const std::string text = std::move(json).str();
  EXPECT_EQ(text, R"({"a":[1,-2.5,"x"],"b":{},"c":[7,8]})");
  EXPECT_EQ(Json::parse(text)["c"][1].number(), 8);
}

TEST(ScriptJson, NoTextCanEndTheScriptItStandsIn) {
  for (const std::string text :
       {"</script>", "</SCRIPT >", "<!--<script>", "]]>", "<img onerror=x>"}) {
    const std::string json = written(text);
    EXPECT_EQ(json.find('<'), std::string::npos) << json;
    EXPECT_EQ(json.find('>'), std::string::npos) << json;
    EXPECT_EQ(Json::parse(json).text(), text);
  }
}

TEST(ScriptJson, EveryAsciiCharacterComesBack) {
  std::string all;
  for (char c = 0; c < 127; ++c) all += c;
  EXPECT_EQ(Json::parse(written(all)).text(), all);
}

TEST(ScriptJson, WhatIsNotUtf8BecomesAReplacementCharacter) {
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(Json::parse(written("a\xff"
                                "b"))
                .text(),
            "a" + mark + "b");
  EXPECT_EQ(Json::parse(written("\xc3")).text(), mark) << "cut off";
  EXPECT_EQ(Json::parse(written("\xc0\xaf")).text(), mark + mark) << "a slash, longer than need be";
  EXPECT_EQ(Json::parse(written("\xed\xa0\x80")).text(), mark + mark + mark) << "half a pair";
  EXPECT_EQ(Json::parse(written("\xf4\x90\x80\x80")).text(), mark + mark + mark + mark);
  EXPECT_EQ(Json::parse(written("grün 漢字 🚀")).text(), "grün 漢字 🚀");
}

TEST(ScriptJson, ANumberThatIsNoneIsZero) {
  ScriptJson json;
  json.numbers(std::vector<double>{std::numeric_limits<double>::infinity(), 0.0 / 1, 1234567.0});
  EXPECT_EQ(std::move(json).str(), "[0,0,1.235e+06]");
}

TEST(HtmlText, HasNoMarkupLeft) {
  EXPECT_EQ(html_text("<a href=\"x\">'&'</a>\xff"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\xef\xbf\xbd");
}

}  // namespace
}  // namespace keyway
