#include "cli/config_file.h"

#include <gtest/gtest.h>

#include "cli/program.h"
#include "support/fake_console.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

namespace fs = std::filesystem;

// A home with a project in it: home/.config/keyway/config.toml and home/work/project/.git.
class ConfigFile : public ::testing::Test {
 protected:
  ConfigFile() : fake(home / "work/project/deep") {
    fs::create_directories(home / ".config/keyway");
    fs::create_directories(home / "work/project/.git");
    fs::create_directories(home / "work/project/deep");
    fake.environment["HOME"] = home.string();
  }

  void write(const std::string& name, const std::string& text) { folder.write(name, text); }

  Result<Settings> load() {
    return load_settings(program.find("batch")->spec, program.commands(), fake.console);
  }
  std::string value(const std::string& option) {
    const auto settings = load();
    return settings ? settings->text(option) : "error: " + settings.error().message;
  }
  std::string error() {
    const auto settings = load();
    return settings ? "(none)" : settings.error().message;
  }

  const Program program = keyway_program();
  const TemporaryFolder folder;
  const fs::path home = folder.path();
  FakeConsole fake;
};

TEST_F(ConfigFile, EachSourceIsStrongerThanTheOneBelowIt) {
  EXPECT_EQ(value("retries"), "3");
  write(".config/keyway/config.toml", "retries = 4\n");
  EXPECT_EQ(value("retries"), "4");
  write("work/project/keyway.toml", "retries = 5\n");
  EXPECT_EQ(value("retries"), "5");
  fake.environment["KEYWAY_RETRIES"] = "6";
  EXPECT_EQ(value("retries"), "6");
  auto settings = load();
  settings->set("retries", {"7", Source::kFlag, {}});
  EXPECT_EQ(settings->text("retries"), "7");
  settings->set("retries", {"8", Source::kEnvironment, {}});
  EXPECT_EQ(settings->text("retries"), "7");
}

TEST_F(ConfigFile, AVariableThatIsEmptyIsNotSet) {
  fake.environment["KEYWAY_RETRIES"] = "";
  EXPECT_EQ(value("retries"), "3");
}

TEST_F(ConfigFile, TheTableOfACommandIsStrongerThanTheTopOfTheFile) {
  write("work/project/keyway.toml", "retries = 5\njobs = 2\n[batch]\nretries = 9\n");
  EXPECT_EQ(value("retries"), "9");
  EXPECT_EQ(value("jobs"), "2");
}

TEST_F(ConfigFile, TheUsersFileFollowsXdgConfigHome) {
  fs::create_directories(home / "xdg/keyway");
  write("xdg/keyway/config.toml", "retries = 8\n");
  write(".config/keyway/config.toml", "retries = 4\n");
  fake.environment["XDG_CONFIG_HOME"] = (home / "xdg").string();
  EXPECT_EQ(value("retries"), "8");
}

TEST_F(ConfigFile, TheNearestProjectFileCounts) {
  write("work/project/keyway.toml", "retries = 5\n");
  write("work/project/deep/keyway.toml", "retries = 6\n");
  EXPECT_EQ(value("retries"), "6");
}

TEST_F(ConfigFile, NothingAboveTheRepositoryIsRead) {
  write("work/keyway.toml", "retries = 5\n");
  EXPECT_EQ(value("retries"), "3");
  fs::remove_all(home / "work/project/.git");
  EXPECT_EQ(value("retries"), "5");  // now home is the boundary
}

TEST_F(ConfigFile, OutsideOfHomeAndRepositoryOnlyTheCurrentFolderIsLookedAt) {
  fs::remove_all(home / "work/project/.git");
  fake.environment["HOME"] = "/elsewhere";
  write("work/project/keyway.toml", "retries = 5\n");
  EXPECT_EQ(value("retries"), "3");
  write("work/project/deep/keyway.toml", "retries = 6\n");
  EXPECT_EQ(value("retries"), "6");
}

TEST_F(ConfigFile, APathIsMeantFromTheFilesOwnFolder) {
  write("work/project/keyway.toml", "limits = \"limits.toml\"\n");
  EXPECT_EQ(value("limits"), "../limits.toml");
}

TEST_F(ConfigFile, WhatIsWrongIsNamedWithItsPlaceAndANextStep) {
  write("work/project/keyway.toml", "retries = 5\njbos = 3\n");
  EXPECT_EQ(error(), "../keyway.toml:2:1: unknown key \"jbos\"\ntry: jobs");
  write("work/project/keyway.toml", "[batch]\nretires = 5\n");
  EXPECT_EQ(error(), "../keyway.toml:2:1: unknown key \"retires\"\ntry: retries");
  write("work/project/keyway.toml", "[bacth]\nretries = 5\n");
  EXPECT_EQ(error(), "../keyway.toml:1:2: unknown key \"bacth\"\ntry: batch");
  write("work/project/keyway.toml", "jobs = \"8\"\n");
  EXPECT_EQ(error(), "../keyway.toml:1:8: jobs must be a number, not a text\ntry: jobs = 8");
  write("work/project/keyway.toml", "timeout = 30\n");
  EXPECT_EQ(error(),
            "../keyway.toml:1:11: timeout must be a text, not a number\ntry: timeout = \"30s\"");
  write("work/project/keyway.toml", "jobs = \n");
  EXPECT_TRUE(error().starts_with("../keyway.toml:1:8: ")) << error();
  write("work/project/keyway.toml", "fresh = true\n");
  EXPECT_TRUE(error().starts_with("../keyway.toml:1:1: unknown key \"fresh\"")) << error();
}

TEST_F(ConfigFile, AValueOutOfRangeIsNamedByWhereItStands) {
  write("work/project/keyway.toml", "jobs = 0\n");
  const auto settings = load();
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->number("jobs", 1, 100).error().message,
            "../keyway.toml:1:8: jobs \"0\": must be a whole number from 1 to 100\ntry: jobs = 8");
}

TEST_F(ConfigFile, ConfigCommandShowsEachValueAndItsSource) {
  write("work/project/keyway.toml", "retries = 5\n");
  fake.environment["KEYWAY_JOBS"] = "7";
  EXPECT_EQ(program.run({"config"}, fake.console), ExitCode::kOk);
  EXPECT_NE(fake.out.find("retries   5           ../keyway.toml:1:11\n"), std::string::npos)
      << fake.out;
  EXPECT_NE(fake.out.find("jobs      7           KEYWAY_JOBS\n"), std::string::npos);
  EXPECT_NE(fake.out.find("grace     30s         built-in\n"), std::string::npos);
}

}  // namespace
}  // namespace keyway::cli
