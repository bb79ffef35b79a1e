#include "exec/slot_folder.h"

#include <filesystem>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway::exec {
namespace {

std::string error_of(const Result<SlotFolder>& folder) {
  return folder ? "(none)" : folder.error().message;
}

mode_t mode_of(const std::string& path) {
  struct stat found{};
  return stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
}

TEST(SlotFolder, IsTheNamedOneElseTheUsersRuntimeFolderElseOneInTmp) {
  const TemporaryFolder folder;
  const std::string runtime = folder.path();
  EXPECT_EQ(find_slot_folder("here", runtime.c_str()).path, "here");
  EXPECT_TRUE(find_slot_folder("here", runtime.c_str()).is_named);
  EXPECT_EQ(find_slot_folder("", runtime.c_str()).path, runtime + "/keyway");
  EXPECT_FALSE(find_slot_folder("", runtime.c_str()).is_named);
  const std::string in_tmp = "/tmp/keyway-" + std::to_string(geteuid());
  for (const char* not_usable : {static_cast<const char*>(nullptr), "", "relative", "/nowhere"}) {
    EXPECT_EQ(find_slot_folder("", not_usable).path, in_tmp);
  }
}

TEST(SlotFolder, IsNotARuntimeFolderThatBelongsToSomebodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can give a folder away";
  const TemporaryFolder folder;
  ASSERT_EQ(chown(folder.path().c_str(), 4242, 4242), 0);
  EXPECT_EQ(find_slot_folder("", folder.path().c_str()).path, "/tmp/keyway-0");
}

TEST(SlotFolder, IsMadeForTheUserAlone) {
  const TemporaryFolder folder;
  const auto made = open_slot_folder({folder.file("new")});
  ASSERT_TRUE(made) << error_of(made);
  EXPECT_EQ(mode_of(folder.file("new")), 0700u);
  EXPECT_EQ(made->file_mode, 0600u);
  EXPECT_TRUE(open_slot_folder({folder.file("new")}));  // and used again
}

TEST(SlotFolder, ThatWasFoundIsRefusedIfOthersCouldTamperWithIt) {
  const TemporaryFolder folder;
  const std::string path = folder.file("keyway");
  std::filesystem::create_directory(path);
  ASSERT_EQ(chmod(path.c_str(), 0770), 0);
  EXPECT_EQ(error_of(open_slot_folder({path})),
            path +
                " can be written by others, who could hold up or forge its slots\n"
                "try: chmod 700 " +
                path);
  std::filesystem::create_directory_symlink(path, folder.file("link"));
  EXPECT_TRUE(
      error_of(open_slot_folder({folder.file("link")})).starts_with("cannot open the folder "));
}

TEST(SlotFolder, ThatWasFoundIsRefusedIfItBelongsToSomebodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can give a folder away";
  const TemporaryFolder folder;
  const std::string path = folder.file("keyway");
  std::filesystem::create_directory(path);
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  ASSERT_EQ(chown(path.c_str(), 4242, 4242), 0);
  EXPECT_EQ(error_of(open_slot_folder({path})),
            path + " belongs to user 4242, not to you\ntry: --state DIR");
}

TEST(SlotFolder, ThatWasNamedMayBeAGroupsButNotEverybodys) {
  const TemporaryFolder folder;
  const std::string path = folder.file("group");
  std::filesystem::create_directory(path);
  ASSERT_EQ(chmod(path.c_str(), 0770), 0);
  const auto opened = open_slot_folder({path, true});
  ASSERT_TRUE(opened) << error_of(opened);
  EXPECT_EQ(opened->file_mode, 0660u);
  ASSERT_EQ(chmod(path.c_str(), 01777), 0);
  EXPECT_EQ(error_of(open_slot_folder({path, true})),
            path +
                " can be written by everybody, who could hold up or forge its slots\n"
                "try: --state " +
                path + "/keyway");
}

TEST(SlotFolder, ThatCannotBeMadeIsAnErrorThatSaysWhy) {
  EXPECT_EQ(error_of(open_slot_folder({"/nowhere/at/all", true})),
            "cannot make the folder /nowhere/at/all: No such file or directory\ntry: --state DIR");
}

TEST(KeyFileName, IsTheKeyWhereThatIsAName) {
  EXPECT_EQ(key_file_name("db"), "db.slots");
  EXPECT_EQ(key_file_name("Shop_2.x-y"), "Shop_2.x-y.slots");
  EXPECT_EQ(key_file_name("a/b c"), "a%2Fb%20c.slots");
  EXPECT_EQ(key_file_name(".."), "%2E..slots");
  EXPECT_EQ(key_file_name("50%"), "50%25.slots");
  EXPECT_EQ(key_file_name("caf\xc3\xa9"), "caf%C3%A9.slots");
}

TEST(KeyFileName, IsAnotherOneForEachKeyHoweverLong) {
  std::set<std::string> names;
  std::size_t keys = 0;
  for (const std::string& base : {std::string(300, 'x'), std::string(100, '/'),
                                  std::string(195, 'y'), std::string(5000, 'x')}) {
    for (const char* const end : {"", "a", "b", "/", "%2F", "aa", "%-"}) {
      const std::string name = key_file_name(base + end);
      EXPECT_LE(name.size(), 255u);
      names.insert(name);
      ++keys;
    }
  }
  EXPECT_EQ(names.size(), keys);
}

}  // namespace
}  // namespace keyway::exec
