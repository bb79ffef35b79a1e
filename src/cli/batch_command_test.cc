// `keyway batch` from its command line to its exit code, with real processes.
#include <gtest/gtest.h>

#include "cli/program.h"
#include "support/fake_console.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class BatchCommand : public ::testing::Test {
 protected:
  // Output of jobs would go to the test's own.
  int run(std::vector<std::string> words) {
    words.insert(words.begin(), {"batch", folder.file("jobs.jsonl"), "--output", "none"});
    fake.out.clear();
    fake.err.clear();
    return static_cast<int>(keyway_program().run(words, fake.console));
  }
  void jobs(const std::string& lines) { folder.write("jobs.jsonl", lines); }

  const TemporaryFolder folder;
  FakeConsole fake{folder.path()};
};

TEST_F(BatchCommand, EndsWithZeroWhenAllSucceed) {
  jobs("{\"cmd\":[\"true\"]}\n{\"cmd\":[\"true\"]}\n");
  EXPECT_EQ(run({}), 0);
  EXPECT_TRUE(has(fake.err, ": 2 jobs, 1 group, ")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\n  ok 2  failed 0  resumed-past 0\n")) << fake.err;
  EXPECT_EQ(fake.out, "");
}

TEST_F(BatchCommand, EndsWithOneAndNamesWhatFailed) {
  jobs(
      "{\"id\":\"good\",\"cmd\":[\"true\"]}\n"
      "{\"id\":\"bad\",\"sh\":\"exit 7\"}\n"
      "{\"id\":\"gone\",\"sh\":\"kill -9 $$\"}\n");
  EXPECT_EQ(run({"--retries", "0"}), 1);
  EXPECT_TRUE(has(fake.err, "\n  failed: bad (exit 7), gone (SIGKILL)\n")) << fake.err;
}

TEST_F(BatchCommand, ASecondRunDoesOnlyWhatIsLeft) {
  jobs("{\"cmd\":[\"true\"]}\n{\"sh\":\"test -e " + folder.file("ready") + "\"}\n");
  EXPECT_EQ(run({"--retries", "0"}), 1);
  folder.write("ready", "");
  EXPECT_EQ(run({}), 0);
  EXPECT_TRUE(has(fake.err, "keyway: resuming: 1 of 2 jobs are done already\n")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\n  ok 1  failed 0  resumed-past 1\n"));
  EXPECT_EQ(run({"--fresh"}), 0);
  EXPECT_TRUE(has(fake.err, "\n  ok 2  failed 0  resumed-past 0\n"));
}

TEST_F(BatchCommand, EndsWithTwoBeforeAnythingRunsIfAJobIsWrong) {
  jobs("{\"sh\":\"touch " + folder.file("ran") + "\"}\n{\"cdm\":[\"true\"]}\n");
  EXPECT_EQ(run({}), 2);
  EXPECT_TRUE(has(fake.err, "jobs.jsonl:2: unknown field \"cdm\"\n  try: ")) << fake.err;
  EXPECT_FALSE(std::filesystem::exists(folder.file("ran")));
}

TEST_F(BatchCommand, EndsWithFourWhenItIsHalted) {
  jobs("{\"cmd\":[\"false\"]}\n{\"cmd\":[\"true\"]}\n{\"cmd\":[\"true\"]}\n");
  EXPECT_EQ(run({"--halt", "now,fail=1", "--retries", "0"}), 4);
  EXPECT_TRUE(fake.err.starts_with("halted after ")) << fake.err;
  EXPECT_TRUE(has(fake.err, "  not run 2  ")) << fake.err;
}

TEST_F(BatchCommand, EndsWithFiveWhenTheStateIsOfOtherJobs) {
  jobs("{\"cmd\":[\"true\"]}\n");
  EXPECT_EQ(run({}), 0);
  jobs("{\"cmd\":[\"true\",\"changed\"]}\n");
  EXPECT_EQ(run({}), 5);
  EXPECT_TRUE(has(fake.err, "\n  try: --fresh")) << fake.err;
}

TEST_F(BatchCommand, QuietSaysNothing) {
  jobs("{\"cmd\":[\"false\"]}\n");
  EXPECT_EQ(run({"-q", "--retries", "0"}), 1);
  EXPECT_EQ(fake.err, "");
  EXPECT_EQ(fake.out, "");
}

TEST_F(BatchCommand, VerboseSaysWhatWasAskedForAndEachTryThatFails) {
  jobs("{\"id\":\"a\",\"cmd\":[\"false\"]}\n");
  fake.environment["KEYWAY_BACKOFF"] = "1ms";
  EXPECT_EQ(run({"-v", "--retries", "1"}), 1);
  EXPECT_TRUE(has(fake.err, "keyway: --backoff 1ms (KEYWAY_BACKOFF)\n")) << fake.err;
  EXPECT_TRUE(has(fake.err, "keyway: --retries 1 (flag)\n"));
  EXPECT_TRUE(has(fake.err, "keyway: a: try 1: exit 1, will be tried again\n"));
  EXPECT_TRUE(has(fake.err, "keyway: a: try 2: exit 1, failed\n"));
}

TEST_F(BatchCommand, JsonIsTheOnlyThingOnStandardOutput) {
  jobs("{\"id\":\"a\",\"cmd\":[\"false\"]}\n");
  EXPECT_EQ(run({"--json", "--retries", "0", "--progress", "json"}), 1);
  EXPECT_TRUE(fake.out.starts_with("{\"ending\":\"finished\",\"exit_code\":1,\"jobs\":1,"));
  EXPECT_TRUE(has(fake.out, "\"first_failed\":[{\"id\":\"a\",\"why\":\"exit 1\"}]"));
  EXPECT_TRUE(fake.out.ends_with("}\n"));
  EXPECT_TRUE(fake.err.starts_with("{\"type\":\"progress\",\"name\":\"jobs.jsonl\"")) << fake.err;
}

TEST_F(BatchCommand, WarnsOfALimitForAGroupThatNoJobHas) {
  jobs("{\"group\":\"reports\",\"cmd\":[\"true\"]}\n");
  folder.write("limits.toml", "[groups]\nreprots = 2\n");
  EXPECT_EQ(run({"--limits", "limits.toml"}), 0);
  EXPECT_TRUE(
      fake.err.starts_with("keyway: warning: limits.toml:2:1: no job is in group \"reprots\"\n"
                           "  did you mean: reports\n"))
      << fake.err;
}

TEST_F(BatchCommand, WritesAReportAndSaysWhere) {
  jobs("{\"id\":\"my-job\",\"cmd\":[\"true\"]}\n");
  EXPECT_EQ(run({"--report", folder.file("r.html")}), 0);
  EXPECT_TRUE(has(fake.err, "\n  report: " + folder.file("r.html") + "\n"));
  EXPECT_TRUE(has(folder.read("r.html"), "my-job"));
}

TEST_F(BatchCommand, ADryRunRunsNothing) {
  jobs("{\"sh\":\"touch " + folder.file("ran") + "\"}\n");
  EXPECT_EQ(run({"-n"}), 0);
  EXPECT_TRUE(has(fake.out, ": 1 job in 1 group, ")) << fake.out;
  EXPECT_FALSE(std::filesystem::exists(folder.file("ran")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("jobs.jsonl.keyway")));
}

TEST_F(BatchCommand, AGroupsQueueThatIsFullRefusesJobs) {
  jobs(
      "{\"id\":\"a\",\"sh\":\"sleep 0.2\"}\n{\"id\":\"b\",\"cmd\":[\"true\"]}\n"
      "{\"id\":\"c\",\"cmd\":[\"true\"]}\n");
  folder.write("limits.toml", "[default]\nqueue = 1\n");
  EXPECT_EQ(run({"--limits", "limits.toml", "-j", "1"}), 1);
  EXPECT_TRUE(has(fake.err, "c (queue full)")) << fake.err;
}

}  // namespace
}  // namespace keyway::cli
