#include "run/command_file.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway::run {
namespace {

TEST(CommandFile, IsReadAsItWasWrittenAndByItsOwnerAlone) {
  TemporaryFolder folder;
  const std::string path = folder.file("command.json");
  const CommandFile command{{"orders.jsonl", "--key=.user", "--", "sh", "-c", "echo \"$1\"\n"},
                            "/srv/a b"};
  ASSERT_TRUE(write_command_file(path, command));
  const auto read = read_command_file(path);
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((*read)->argv, command.argv);
  EXPECT_EQ((*read)->cwd, command.cwd);
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(CommandFile, OneThatIsNotThereIsNone) {
  const auto read = read_command_file("/nowhere/command.json");
  ASSERT_TRUE(read);
  EXPECT_FALSE(*read);
}

TEST(CommandFile, OneOfAnotherFormIsRefused) {
  TemporaryFolder folder;
  for (const char* text : {"", "x", "{}", "{\"argv\":[1],\"cwd\":\"/\"}", "{\"argv\":[]}"}) {
    const auto read = read_command_file(folder.write("command.json", text));
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kConflict);
  }
}

}  // namespace
}  // namespace keyway::run
