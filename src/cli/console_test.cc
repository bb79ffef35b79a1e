#include "cli/console.h"

#include <gtest/gtest.h>

#include "support/fake_console.h"

namespace keyway::cli {
namespace {

bool colored(const std::map<std::string, std::string>& environment, ColorMode mode, bool terminal) {
  FakeConsole fake;
  for (const auto& [name, value] : environment) fake.environment[name] = value;
  return wants_color(fake.console, mode, terminal);
}

TEST(Color, IsForTerminalsUnlessTheFlagSaysOtherwise) {
  EXPECT_TRUE(colored({}, ColorMode::kAuto, true));
  EXPECT_FALSE(colored({}, ColorMode::kAuto, false));
  EXPECT_TRUE(colored({}, ColorMode::kAlways, false));
  EXPECT_FALSE(colored({}, ColorMode::kNever, true));
}

TEST(Color, TheEnvironmentDecidesWhereTheFlagDoesNot) {
  EXPECT_FALSE(colored({{"NO_COLOR", "1"}}, ColorMode::kAuto, true));
  EXPECT_TRUE(colored({{"NO_COLOR", ""}}, ColorMode::kAuto, true));
  EXPECT_TRUE(colored({{"NO_COLOR", "1"}}, ColorMode::kAlways, true));
  EXPECT_TRUE(colored({{"CLICOLOR_FORCE", "1"}}, ColorMode::kAuto, false));
  EXPECT_FALSE(colored({{"CLICOLOR_FORCE", "0"}}, ColorMode::kAuto, false));
  EXPECT_FALSE(colored({{"NO_COLOR", "1"}, {"CLICOLOR_FORCE", "1"}}, ColorMode::kAuto, true));
  EXPECT_FALSE(colored({{"TERM", "dumb"}}, ColorMode::kAuto, true));
  EXPECT_FALSE(colored({{"CLICOLOR_FORCE", "1"}}, ColorMode::kNever, true));
}

TEST(PrintError, HasWhatIsWrongAndBelowItTheNextStep) {
  FakeConsole fake;
  print_error(fake.console, usage_error("a.toml:3:1: unknown key \"job\"", "jobs"));
  EXPECT_EQ(fake.err, "keyway: a.toml:3:1: unknown key \"job\"\n  try: jobs\n");
  EXPECT_EQ(fake.out, "");
}

TEST(PrintError, LaterLinesAreIndentedWhetherTheyCameSoOrNot) {
  FakeConsole fake;
  print_error(fake.console, {ErrorCode::kIo, "a\n  try: b\nc"});
  EXPECT_EQ(fake.err, "keyway: a\n  try: b\n  c\n");
}

TEST(PrintError, CannotBeMadeToSteerTheTerminal) {
  FakeConsole fake;
  print_error(fake.console, usage_error("\"\x1b[2J\"", "nothing"));
  EXPECT_EQ(fake.err, "keyway: \"\\x1b[2J\"\n  try: nothing\n");
}

TEST(PrintError, IsColouredOnATerminalOnly) {
  FakeConsole fake;
  fake.console.err_is_terminal = true;
  print_error(fake.console, usage_error("x", "y"));
  EXPECT_EQ(fake.err, "\x1b[31mkeyway:\x1b[0m x\n  try: y\n");
}

TEST(Console, TextIsAsWideAsTheTerminalWithinReason) {
  FakeConsole fake;
  EXPECT_EQ(fake.console.text_columns(), 80);
  fake.columns = 100;
  EXPECT_EQ(fake.console.text_columns(), 100);
  fake.columns = 300;
  EXPECT_EQ(fake.console.text_columns(), 120);
  fake.columns = 10;
  EXPECT_EQ(fake.console.text_columns(), 40);
}

}  // namespace
}  // namespace keyway::cli
