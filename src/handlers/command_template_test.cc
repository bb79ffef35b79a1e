#include "handlers/command_template.h"

#include <gtest/gtest.h>

#include "handlers/call_fixture.h"

namespace keyway::run {
namespace {

using Words = std::vector<std::string>;

Words fill(const Words& argv, const TestRecord& record, bool shell = false) {
  const Result<CommandTemplate> command = CommandTemplate::parse(argv, shell);
  if (!command) return {"refused: " + command.error().message};
  const Result<Words> filled = command->fill(record.call(2));
  return filled ? *filled : Words{"failed: " + filled.error().message};
}

TEST(CommandTemplate, APlaceholderStandsForATextOfTheRecord) {
  const TestRecord record(R"({"a":{"b":"x y"},"n":1.50,"list":[{"c":true}]})", "f:1042", "u 7");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain", "plain"},
      {"", ""},
      {"{}", R"({"a":{"b":"x y"},"n":1.50,"list":[{"c":true}]})"},
      {"{key}", "u 7"},
      {"{group}", "vip"},
      {"{id}", "f:1042"},
      {"{seq}", "7"},
      {"{slot}", "3"},
      {"{attempt}", "2"},
      {"{.a.b}", "x y"},
      {"{.n}", "1.50"},
      {"{.list[0].c}", "true"},
      {"{.a}", R"({"b":"x y"})"},
      {"--key={key}/{.a.b}.txt", "--key=u 7/x y.txt"},
      {"{{", "{"},
      {"{{key}", "{key}"},
      {"{{{key}}", "{u 7}"},
      {"a}b", "a}b"},
      {"{{}", "{}"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(fill({"cmd", text}, record), (Words{"cmd", expected})) << text;
  }
}

TEST(CommandTemplate, AValueIsNeverParsedAgain) {
  const TestRecord record("{key} $(rm -rf /) 'x' \"y\" {{");
  EXPECT_EQ(fill({"cmd", "{}"}, record), (Words{"cmd", "{key} $(rm -rf /) 'x' \"y\" {{"}));
}

TEST(CommandTemplate, APlaceholderThatDoesNotExistIsRefusedWithASuggestion) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{kye}", "there is no placeholder {kye}\n  try: {key}"},
      {"{Group}", "there is no placeholder {Group}\n  try: {group}"},
      {"{print $1}", "or {{ for a brace"},
      {"a{b", "a brace is not closed: {b\n  try: {{"},
      {"{..}", "placeholder {..}: "},
  };
  for (const auto& [text, message] : cases) {
    const Result<CommandTemplate> command = CommandTemplate::parse({"cmd", text}, false);
    ASSERT_FALSE(command.ok()) << text;
    EXPECT_EQ(command.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(command.error().message.find(message), std::string::npos) << command.error().message;
  }
  EXPECT_FALSE(CommandTemplate::parse({}, false).ok());
  EXPECT_FALSE(CommandTemplate::parse({""}, true).ok());
}

TEST(CommandTemplate, ARecordWithoutTheValueFails) {
  EXPECT_EQ(fill({"cmd", "{.a.b}"}, TestRecord(R"({"a":{}})")), Words{"failed: no value at .a.b"});
  EXPECT_EQ(fill({"cmd", "{.a}"}, TestRecord(R"({"a":null})")), Words{"failed: no value at .a"});
  EXPECT_EQ(fill({"cmd", "{.a}"}, TestRecord("no json")).front().find("failed: "), 0u);
}

TEST(CommandTemplate, AValueWithANulByteFails) {
  const std::string message = fill({"cmd", "{}"}, TestRecord(std::string("a\0b", 3))).front();
  EXPECT_NE(message.find("the value of {} has a NUL byte"), std::string::npos) << message;
}

TEST(CommandTemplate, ForAShellEveryValueIsOneQuotedWord) {
  const TestRecord record("it's $HOME `x` \"q\" \\ \n;", "f:1", "");
  EXPECT_EQ(
      fill({"echo", "{}", "{key}", "$KEYWAY_KEY", "|", "cat"}, record, true),
      (Words{"/bin/sh", "-c", "echo 'it'\\''s $HOME `x` \"q\" \\ \n;' '' $KEYWAY_KEY | cat"}));
}

TEST(CommandTemplate, WhereAShellWouldNotTakeQuotesAsQuotesAPlaceholderIsRefused) {
  const TestRecord record("$(touch x)");
  const std::vector<std::string> refused = {
      "echo '{}'",       "echo \"{}\"",   "echo \\{}",          "echo a'b {} c'",
      "echo \"\\\"{}\"", "echo 'a' '{}'", "# don't\necho '{}'", "cat <<END\n{}\nEND",
      "echo $'a' {}",    "# {}",
  };
  for (const std::string& text : refused) {
    EXPECT_EQ(fill({text}, record, true).front().find("refused: "), 0u) << text;
  }
  const std::vector<std::string> taken = {
      "echo {}",    "echo 'a'{}\"b\"", "echo '\\'{}",
      "echo \\'{}", "echo a#b' '{}",   "# don't\necho {}",
  };
  for (const std::string& text : taken) {
    EXPECT_EQ(fill({text}, record, true).front(), "/bin/sh") << text;
  }
  EXPECT_EQ(fill({"cat <<END\nx\nEND"}, record, true).front(), "/bin/sh");
}

TEST(CommandTemplate, KnowsWhetherEveryRecordRunsTheSameProgram) {
  EXPECT_TRUE(CommandTemplate::parse({"cmd", "{}"}, false)->has_fixed_program());
  EXPECT_FALSE(CommandTemplate::parse({"./{key}.sh"}, false)->has_fixed_program());
  EXPECT_TRUE(CommandTemplate::parse({"{key}"}, true)->has_fixed_program());
}

}  // namespace
}  // namespace keyway::run
