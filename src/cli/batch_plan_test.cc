#include "cli/batch_plan.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

class BatchPlanTest : public ::testing::Test {
 protected:
  batch::Options options_for(const std::string& jobs) {
    batch::Options options;
    options.jobs_file = folder.write("jobs.jsonl", jobs);
    options.jobs = 8;
    options.limits.groups["vip"].limit = 100;
    return options;
  }

  const TemporaryFolder folder;
};

TEST_F(BatchPlanTest, TellsEveryJobAndCountsThemByGroup) {
  std::string told;
  const auto plan =
      plan_batch(options_for("{\"id\":\"a\",\"group\":\"vip\",\"cmd\":[\"ls\",\"x y\"]}\n"
                             "{\"id\":\"b\",\"sh\":\"a | b\"}\n"
                             "{\"id\":\"c\",\"group\":\"vip\",\"cmd\":[\"ls\"]}\n"),
                 [&](std::string_view line) { told += line; });
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(told, "vip  a  ls 'x y'\ndefault  b  a | b\nvip  c  ls\n");
  EXPECT_EQ(plan_text(*plan), folder.file("jobs.jsonl") +
                                  ": 3 jobs in 2 groups, 8 at once; nothing was run\n"
                                  "  group    at once       jobs\n"
                                  "  vip            8          2\n"
                                  "  default        1          1\n");
  EXPECT_EQ(plan_json(*plan),
            R"({"name":")" + folder.file("jobs.jsonl") +
                R"(","jobs":3,"done":0,"at_once":8,"groups":[{"group":"vip","limit":8,"jobs":2},)"
                R"({"group":"default","limit":1,"jobs":1}]})");
}

TEST_F(BatchPlanTest, AJobThatIsWrongIsFoundAsInARun) {
  const auto plan =
      plan_batch(options_for("{\"cmd\":[\"ls\"]}\n{\"cdm\":[\"ls\"]}\n"), [](std::string_view) {});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(plan.error().message.find("jobs.jsonl:2: "), std::string::npos) << plan.error().message;
}

TEST_F(BatchPlanTest, WarnsOfLimitsForGroupsThatNoJobHas) {
  const auto file = read_limits_file(
      folder.write("limits.toml", "[groups]\nvip = 4\nreprots = 2\n"), "limits.toml");
  ASSERT_TRUE(file);
  const batch::Options options = options_for(
      "{\"group\":\"vip\",\"cmd\":[\"ls\"]}\n{\"group\":\"reports\",\"cmd\":[\"ls\"]}\n");
  EXPECT_EQ(warn_of_unused_groups(options, *file),
            (std::vector<std::string>{
                "limits.toml:3:1: no job is in group \"reprots\"\ndid you mean: reports"}));
}

TEST_F(BatchPlanTest, DoesNotWarnOfWhatItCannotKnow) {
  const auto file = read_limits_file(folder.write("limits.toml", "[groups]\nx = 4\n"), "l");
  ASSERT_TRUE(file);
  EXPECT_TRUE(warn_of_unused_groups({.jobs_file = "-"}, *file).empty());
  EXPECT_TRUE(warn_of_unused_groups({.jobs_file = "/nowhere"}, *file).empty());
  EXPECT_TRUE(warn_of_unused_groups(options_for("no json\n"), *file).empty());
}

}  // namespace
}  // namespace keyway::cli
