#include "cli/limits_file.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

Result<LimitsFile> read(const std::string& text) {
  const TemporaryFolder folder;
  return read_limits_file(folder.write("limits.toml", text), "limits.toml");
}

std::string error_of(const std::string& text) {
  const auto file = read(text);
  return file ? "(none)" : file.error().message;
}

TEST(LimitsFile, AGroupIsANumberOrATable) {
  const auto file = read(
      "[groups]\n"
      "vip = 4\n"
      "db = { limit = 2, max_in_flight = 6, queue = 100 }\n"
      "\"eu/west\" = 3\n"
      "[groups.slow]\n"
      "limit = 5\n");
  ASSERT_TRUE(file) << file.error().message;
  const auto& groups = file->limits.groups;
  EXPECT_EQ(groups.at("vip").limit, 4);
  EXPECT_EQ(groups.at("vip").queue, std::nullopt);
  EXPECT_EQ(groups.at("db").limit, 2);
  EXPECT_EQ(groups.at("db").max_in_flight, 6);
  EXPECT_EQ(groups.at("db").queue, 100);
  EXPECT_EQ(groups.at("eu/west").limit, 3);
  EXPECT_EQ(groups.at("slow").limit, 5);
  EXPECT_EQ(file->limits.standard.limit, 1);
  EXPECT_FALSE(file->has_default_limit);
}

TEST(LimitsFile, TheDefaultIsForAllOthers) {
  const auto file = read("[default]\nlimit = 2\nmax_in_flight = 8\nqueue = 1000\n");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->limits.standard.limit, 2);
  EXPECT_EQ(file->limits.standard.max_in_flight, 8);
  EXPECT_EQ(file->limits.standard.queue, 1000);
  EXPECT_TRUE(file->has_default_limit);
}

TEST(LimitsFile, WhatIsWrongIsNamedWithItsPlaceAndANextStep) {
  EXPECT_EQ(error_of("[groups]\nvip = 0\n"),
            "limits.toml:2:7: vip = 0: must be 1 or more\ntry: vip = 4");
  EXPECT_EQ(error_of("[groups]\n\"a b\" = -1\n"),
            "limits.toml:2:9: \"a b\" = -1: must be 1 or more\ntry: \"a b\" = 4");
  EXPECT_EQ(error_of("[groups]\nvip = \"4\"\n"),
            "limits.toml:2:7: vip must be a whole number, not a text\ntry: vip = 4");
  EXPECT_EQ(error_of("[groups]\nvip = 1.5\n"),
            "limits.toml:2:7: vip must be a whole number, not a number with a fraction\n"
            "try: vip = 4");
  EXPECT_EQ(error_of("[groups]\nvip = { limt = 1 }\n"),
            "limits.toml:2:9: unknown key \"limt\"\ntry: limit");
  EXPECT_EQ(error_of("[default]\nlimit = 99999999999\n"),
            "limits.toml:2:9: limit = 99999999999: must be 1 or more, and at most 2,147,483,647\n"
            "try: limit = 4");
  EXPECT_EQ(error_of("[group]\nvip = 4\n"),
            "limits.toml:1:2: unknown key \"group\"\ntry: [groups]");
  EXPECT_EQ(
      error_of("vip = 4\n"),
      "limits.toml:1:1: unknown key \"vip\"\ntry: a line [groups] above it, if vip is a group");
  EXPECT_EQ(error_of("groups = 3\n"),
            "limits.toml:1:10: groups must be a table, not a number\ntry: [groups]");
  EXPECT_TRUE(error_of("[groups\n").starts_with("limits.toml:1:8: "));
}

TEST(LimitsFile, OneThatIsNotThereIsAnErrorOfUsage) {
  const auto file = read_limits_file("/nowhere/limits.toml", "limits.toml");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(file.error().message,
            "limits.toml: cannot be read: No such file or directory\ntry: ls -l limits.toml");
}

TEST(LimitsFile, AGroupThatNoJobHasIsAWarningWithTheOneThatMayBeMeant) {
  const auto file = read("[groups]\nvip = 4\nreprots = 2\nother = 1\n");
  ASSERT_TRUE(file);
  EXPECT_EQ(unused_groups(*file, {"vip", "reports"}),
            (std::vector<std::string>{
                "limits.toml:4:1: no job is in group \"other\"",
                "limits.toml:3:1: no job is in group \"reprots\"\ndid you mean: reports"}));
  EXPECT_TRUE(unused_groups(*file, {"vip", "reprots", "other"}).empty());
}

}  // namespace
}  // namespace keyway::cli
