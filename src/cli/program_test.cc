#include "cli/program.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "keyway/version.h"
#include "support/fake_console.h"

namespace keyway::cli {
namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& words) {
  FakeConsole fake;
  const int code = static_cast<int>(keyway_program().run(words, fake.console));
  return {code, fake.out, fake.err};
}

TEST(Program, WithoutACommandSaysWhatThereIsAndFails) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("\nCommands\n  run "), std::string::npos);
}

TEST(Program, HelpGoesToStandardOutputAndSucceeds) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("\nCommands\n"), std::string::npos);
  EXPECT_EQ(run({"help"}).out, outcome.out);
  EXPECT_EQ(run({"-h"}).out, outcome.out);
}

TEST(Program, HelpOfACommandCanBeAskedForInEitherOrder) {
  const Outcome outcome = run({"batch", "--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with("keyway batch: "));
  EXPECT_EQ(run({"help", "batch"}).out, outcome.out);
  EXPECT_EQ(run({"batch", "-h", "--jobs", "0"}).out, outcome.out);
}

TEST(Program, TellsItsVersion) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with("keyway " KEYWAY_VERSION_STRING)) << outcome.out;
}

TEST(Program, AnUnknownWordIsAnsweredWithWhatMayBeMeant) {
  EXPECT_EQ(run({"bacth"}).err, "keyway: unknown command \"bacth\"\n  try: keyway batch\n");
  EXPECT_EQ(run({"bacth"}).code, 2);
  EXPECT_EQ(run({"--versoin"}).err, "keyway: unknown flag \"--versoin\"\n  try: --version\n");
  EXPECT_EQ(run({"help", "bach"}).err, "keyway: unknown command \"bach\"\n  try: keyway batch\n");
  EXPECT_EQ(run({"batch", "a", "--job", "3"}).err,
            "keyway: unknown flag \"--job\"\n  try: --jobs N\n");
  EXPECT_EQ(run({"batch", "a", "--job", "3"}).code, 2);
  EXPECT_EQ(run({"completion", "bsh"}).err,
            "keyway: completion \"bsh\": must be bash, zsh or fish\n"
            "  try: keyway completion bash\n");
}

TEST(Program, WhatACommandThrowsIsAMessageAndNotACrash) {
  const Program program("1", "test",
                        {{.spec = {.name = "boom"}, .run = [](const Invocation&) -> ExitCode {
                            throw std::runtime_error("no luck");
                          }}});
  FakeConsole fake;
  EXPECT_EQ(static_cast<int>(program.run({"boom"}, fake.console)), 125);
  EXPECT_EQ(fake.err, "keyway: no luck\n  try: keyway --help\n");
}

TEST(Program, AFullDiskIsNotASuccess) {
  FakeConsole fake;
  fake.console.out_failure = [] { return std::string("No space left on device"); };
  EXPECT_EQ(static_cast<int>(keyway_program().run({"--version"}, fake.console)), 3);
  EXPECT_EQ(
      fake.err,
      "keyway: standard output: No space left on device\n  try: a place that can be written to\n");
}

}  // namespace
}  // namespace keyway::cli
