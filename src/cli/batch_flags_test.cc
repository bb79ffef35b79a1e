#include "cli/batch_flags.h"

#include <gtest/gtest.h>

#include "cli/batch_spec.h"
#include "cli/common_options.h"
#include "cli/program.h"
#include "support/fake_console.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

using namespace std::chrono_literals;

// Runs the command line through the real program, and keeps what batch would be asked to do.
class BatchFlagsTest : public ::testing::Test {
 protected:
  Result<BatchFlags> parse(std::vector<std::string> words) {
    std::optional<Result<BatchFlags>> kept;
    const Program program("1", "test", {{.spec = batch_spec(), .run = [&](const Invocation& call) {
                                           kept = batch_flags(call);
                                           return ExitCode::kOk;
                                         }}});
    words.insert(words.begin(), "batch");
    fake.err.clear();
    static_cast<void>(program.run(words, fake.console));
    if (!kept) return Error{ErrorCode::kInvalidArgument, fake.err};
    return *kept;
  }
  std::string error(const std::vector<std::string>& words) {
    const auto flags = parse(words);
    return flags ? "(none)" : flags.error().message;
  }

  const TemporaryFolder folder;
  FakeConsole fake{folder.path()};
};

TEST_F(BatchFlagsTest, WithoutFlagsEverythingHasItsBuiltInValue) {
  const auto flags = parse({"jobs.jsonl"});
  ASSERT_TRUE(flags) << flags.error().message;
  const batch::Options& options = flags->options;
  EXPECT_EQ(options.jobs_file, "jobs.jsonl");
  EXPECT_EQ(options.jobs, usable_processors());
  EXPECT_EQ(options.limits.standard.limit, 1);
  EXPECT_EQ(options.retries, 3);
  EXPECT_EQ(options.backoff.first, 500ms);
  EXPECT_EQ(options.backoff.most, 30s);
  EXPECT_EQ(options.timeout, 0ms);
  EXPECT_EQ(options.grace, 30s);
  EXPECT_EQ(options.halt.when, jobs::Halt::When::kNever);
  EXPECT_EQ(options.output, batch::OutputMode::kGroup);
  EXPECT_FALSE(options.fresh);
  EXPECT_EQ(flags->common.progress, ProgressMode::kPlain);
}

TEST_F(BatchFlagsTest, EveryFlagArrives) {
  const auto flags = parse({"-",           "-j",         "32",     "--limit",       "2",
                            "--retries=0", "--backoff",  "1s..2s", "--timeout",     "1m",
                            "--grace",     "5s",         "--halt", "soon,fail=10%", "--output",
                            "line",        "--progress", "json",   "--report",      "r.html",
                            "--state",     "dir",        "--name", "nightly",       "--fresh",
                            "-n",          "-v",         "--json", "--color",       "never"});
  ASSERT_TRUE(flags) << flags.error().message;
  const batch::Options& options = flags->options;
  EXPECT_EQ(options.jobs_file, "-");
  EXPECT_EQ(options.jobs, 32);
  EXPECT_EQ(options.limits.standard.limit, 2);
  EXPECT_EQ(options.retries, 0);
  EXPECT_EQ(options.backoff.first, 1s);
  EXPECT_EQ(options.timeout, 1min);
  EXPECT_EQ(options.grace, 5s);
  EXPECT_TRUE(options.halt.percent);
  EXPECT_EQ(options.output, batch::OutputMode::kLine);
  EXPECT_EQ(options.report_file, "r.html");
  EXPECT_EQ(options.state_dir, "dir");
  EXPECT_EQ(options.name, "nightly");
  EXPECT_TRUE(options.fresh);
  EXPECT_EQ(flags->common.progress, ProgressMode::kJson);
  EXPECT_TRUE(flags->common.dry_run);
  EXPECT_TRUE(flags->common.verbose);
  EXPECT_TRUE(flags->common.json);
}

TEST_F(BatchFlagsTest, AWrongValueIsShownWithAValidOne) {
  EXPECT_EQ(error({"a", "--jobs", "0"}),
            "--jobs \"0\": must be a whole number from 1 to 10,000\ntry: --jobs 8");
  EXPECT_EQ(error({"a", "--limit", "x"}),
            "--limit \"x\": must be a whole number from 1 to 1,000,000\ntry: --limit 2");
  EXPECT_EQ(error({"a", "--retries", "-1"}),
            "--retries \"-1\": must be a whole number from 0 to 1,000\ntry: --retries 3");
  EXPECT_EQ(error({"a", "--backoff", "soon"}),
            "--backoff \"soon\": must be two times, MIN..MAX\ntry: --backoff 500ms..30s");
  EXPECT_EQ(error({"a", "--timeout", "5x"}),
            "--timeout \"5x\": must be a time such as 500ms, 30s, 5m or 1h\ntry: --timeout 30s");
  EXPECT_EQ(error({"a", "--grace", "-1s"}),
            "--grace \"-1s\": must be a time such as 500ms, 30s, 5m or 1h\ntry: --grace 0");
  EXPECT_EQ(error({"a", "--halt", "now,fail=0"}),
            "--halt \"now,fail=0\": must wait for at least one failure\ntry: --halt soon,fail=3");
  EXPECT_EQ(error({"a", "--output", "lines"}),
            "--output \"lines\": must be one of group, line, keep-order, none\ntry: --output line");
  EXPECT_EQ(error({"a", "--progress", "jsn"}),
            "--progress \"jsn\": must be one of auto, bar, plain, json, none\n"
            "try: --progress json");
  EXPECT_EQ(error({"a", "--color", "alwys"}),
            "keyway: --color \"alwys\": must be one of auto, always, never\n"
            "  try: --color always\n");
}

TEST_F(BatchFlagsTest, AWrongValueOfTheEnvironmentIsNamedByItsVariable) {
  fake.environment["KEYWAY_JOBS"] = "many";
  EXPECT_EQ(error({"a"}),
            "KEYWAY_JOBS \"many\": must be a whole number from 1 to 10,000\ntry: KEYWAY_JOBS=8");
  EXPECT_EQ(parse({"a", "-j3"})->options.jobs, 3);
}

TEST_F(BatchFlagsTest, FlagsThatContradictAreRefused) {
  EXPECT_EQ(error({"a", "-q", "-v"}),
            "--quiet and --verbose: only one of them makes sense\ntry: --verbose");
  EXPECT_EQ(error({"a", "--name", "n"}),
            "--name \"n\": is for jobs from standard input\ntry: --state n.keyway");
  EXPECT_EQ(error({"-", "--name", "a/b"}),
            "--name \"a/b\": must not contain a slash\ntry: --name nightly");
}

TEST_F(BatchFlagsTest, AReportThatCouldNotBeWrittenIsRefusedAtOnce) {
  EXPECT_EQ(error({"a", "--report", "none/r.html"}),
            "--report \"none/r.html\": its folder is not there, or cannot be written to\n"
            "try: --report report.html");
}

TEST_F(BatchFlagsTest, OutputIsHiddenFromJsonUnlessItWasAskedFor) {
  EXPECT_EQ(parse({"a", "--json"})->options.output, batch::OutputMode::kNone);
  EXPECT_EQ(parse({"a", "--json", "--output", "group"})->options.output, batch::OutputMode::kGroup);
}

TEST_F(BatchFlagsTest, OfLimitAndLimitsFileTheStrongerSourceDecides) {
  folder.write("limits.toml", "[default]\nlimit = 5\n[groups]\nvip = 4\n");
  EXPECT_EQ(parse({"a", "--limits", "limits.toml"})->options.limits.standard.limit, 5);
  EXPECT_EQ(parse({"a", "--limits", "limits.toml"})->options.limits.groups.at("vip").limit, 4);
  EXPECT_EQ(parse({"a", "--limits", "limits.toml", "--limit", "2"})->options.limits.standard.limit,
            2);
  fake.environment["KEYWAY_LIMIT"] = "3";
  EXPECT_EQ(parse({"a", "--limits", "limits.toml"})->options.limits.standard.limit, 5);
  fake.environment["KEYWAY_LIMITS"] = "limits.toml";
  EXPECT_EQ(parse({"a"})->options.limits.standard.limit, 3);
}

TEST_F(BatchFlagsTest, ALimitsFileWithoutADefaultLeavesItToTheFlag) {
  folder.write("limits.toml", "[groups]\nvip = 4\n");
  EXPECT_EQ(parse({"a", "--limits", "limits.toml"})->options.limits.standard.limit, 1);
  EXPECT_EQ(error({"a", "--limits", "none.toml"}),
            "none.toml: cannot be read: No such file or directory\ntry: ls -l none.toml");
}

TEST(BatchFlags, OutputHasFourForms) {
  EXPECT_EQ(*parse_output("group"), batch::OutputMode::kGroup);
  EXPECT_EQ(*parse_output("line"), batch::OutputMode::kLine);
  EXPECT_EQ(*parse_output("keep-order"), batch::OutputMode::kKeepOrder);
  EXPECT_EQ(*parse_output("none"), batch::OutputMode::kNone);
  EXPECT_FALSE(parse_output("all"));
}

}  // namespace
}  // namespace keyway::cli
