#include "handlers/json_check.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace keyway::run {
namespace {

TEST(JsonCheck, KnowsWhatIsOneJsonValue) {
  JsonCheck check;
  const std::vector<std::string> json = {
      "{}",
      " [1, 2.5e-3, \"a\\u00e9\\n\"] ",
      "\"text\"",
      "0",
      "-0.0",
      "null",
      R"({"a":{"b":[true,false,null]}})",
      "123456789012345678901234567890",
      R"({"big":[-123456789012345678901234567890.5E+10, {}, [], "x\\\"y"], "more": 1})",
      "1e999",
      std::string(5000, '[') + std::string(5000, ']'),
  };
  for (const std::string& text : json) EXPECT_TRUE(check.is_json(text)) << text.substr(0, 60);
  constexpr const char* kBig = "123456789012345678901234567890";
  const std::vector<std::string> others = {
      "",
      " ",
      "text",
      "{",
      "{} {}",
      "[1,]",
      "{\"a\":}",
      "{'a':1}",
      "01",
      "1.",
      "\"a\nb\"",
      "\"\xff\"",
      "\"\\x\"",
      std::string(5000, '['),
      std::string(5000, '[') + std::string(4999, ']'),
      std::string("[") + kBig + ",]",
      std::string("[") + kBig + " 1]",
      std::string("{\"a\":") + kBig + ",}",
      std::string("{\"a\" ") + kBig + "}",
      std::string(kBig) + ".",
      std::string(kBig) + "e",
      std::string("[") + kBig + ",\"\\u00g0\"]",
      std::string("[") + kBig + ",tru]",
      std::string("[") + kBig + "]]",
      std::string("[") + kBig + ",\"\xff\"]",
  };
  for (const std::string& text : others) EXPECT_FALSE(check.is_json(text)) << text.substr(0, 60);
}

}  // namespace
}  // namespace keyway::run
