#include "cli/arguments.h"

#include <gtest/gtest.h>

#include "cli/batch_spec.h"

namespace keyway::cli {
namespace {

using Words = std::vector<std::string>;

std::string option_of(const Words& words, const std::string& option) {
  const auto parsed = parse_arguments(batch_spec(), words);
  if (!parsed) return "error: " + parsed.error().message;
  const auto found = parsed->options.find(option);
  return found == parsed->options.end() ? "(none)" : found->second;
}

std::string error_of(const Words& words) {
  const auto parsed = parse_arguments(batch_spec(), words);
  return parsed ? "(none)" : parsed.error().message;
}

TEST(Arguments, AllUsualFormsOfAnOptionMeanTheSame) {
  EXPECT_EQ(option_of({"a", "-j", "8"}, "jobs"), "8");
  EXPECT_EQ(option_of({"a", "-j8"}, "jobs"), "8");
  EXPECT_EQ(option_of({"a", "--jobs", "8"}, "jobs"), "8");
  EXPECT_EQ(option_of({"--jobs=8", "a"}, "jobs"), "8");
  EXPECT_EQ(option_of({"a"}, "jobs"), "(none)");
}

TEST(Arguments, SwitchesCanBeJoined) {
  EXPECT_EQ(option_of({"-qn", "a"}, "quiet"), "true");
  EXPECT_EQ(option_of({"-qn", "a"}, "dry-run"), "true");
  EXPECT_EQ(option_of({"-nj4", "a"}, "jobs"), "4");
}

TEST(Arguments, OfAnOptionGivenTwiceTheLastCounts) {
  EXPECT_EQ(option_of({"a", "-j", "8", "--jobs", "9"}, "jobs"), "9");
}

TEST(Arguments, AValueMayLookLikeAnOptionOrAList) {
  EXPECT_EQ(option_of({"a", "--limit", "-3"}, "limit"), "-3");
  EXPECT_EQ(option_of({"a", "--name", "[x,y]"}, "name"), "[x,y]");
  EXPECT_EQ(option_of({"a", "--backoff=1s..2s"}, "backoff"), "1s..2s");
}

TEST(Arguments, ADashIsStandardInputAndTwoEndTheOptions) {
  EXPECT_EQ(parse_arguments(batch_spec(), {"-"})->arguments, Words{"-"});
  EXPECT_EQ(parse_arguments(batch_spec(), {"--", "-j"})->arguments, Words{"-j"});
}

TEST(Arguments, AnUnknownFlagIsAnsweredWithTheOneThatIsMeant) {
  EXPECT_EQ(error_of({"a", "--job", "3"}), "unknown flag \"--job\"\ntry: --jobs N");
  EXPECT_EQ(error_of({"a", "--dry"}), "unknown flag \"--dry\"\ntry: --dry-run");
  EXPECT_EQ(error_of({"a", "--nothing-like=1"}),
            "unknown flag \"--nothing-like\"\ntry: keyway batch --help");
  EXPECT_EQ(error_of({"a", "-qZ"}), "unknown flag \"-Z\"\ntry: keyway batch --help");
}

TEST(Arguments, AMissingValueIsShownByAnExample) {
  EXPECT_EQ(error_of({"a", "--jobs"}), "--jobs needs a value\ntry: --jobs 8");
  EXPECT_EQ(error_of({"a", "-j"}), "--jobs needs a value\ntry: --jobs 8");
  EXPECT_EQ(error_of({"--state=", "a"}), "--state needs a value\ntry: --state run1.keyway");
}

TEST(Arguments, ASwitchTakesNoValue) {
  EXPECT_EQ(error_of({"a", "--fresh=no"}), "--fresh takes no value\ntry: --fresh");
}

TEST(Arguments, TooFewAndTooManyAreErrorsUnlessHelpIsAskedFor) {
  EXPECT_EQ(error_of({}), "batch: JOBS is missing\ntry: keyway batch jobs.jsonl");
  EXPECT_EQ(error_of({"a", "b"}),
            "batch: one argument too many: \"b\"\ntry: keyway batch [OPTION]... JOBS");
  EXPECT_TRUE(parse_arguments(batch_spec(), {"--help"})->help);
  EXPECT_TRUE(parse_arguments(batch_spec(), {"a", "b", "-h"})->help);
}

}  // namespace
}  // namespace keyway::cli
