#include "dead/letter_file.h"

#include <csignal>

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dead/letter_fixture.h"
#include "keyway/dead_letter_file.h"
#include "support/own_process.h"

namespace keyway::dead {
namespace {

using LetterFileTest = LetterFixture;

TEST_F(LetterFileTest, AFileThatIsNotThereHasNoLetters) { EXPECT_TRUE(listed().empty()); }

TEST_F(LetterFileTest, LettersStandInTheOrderOfTheFile) {
  write({{"f:3"}, {"f:1"}, {"f:2"}});
  EXPECT_EQ(listed(), (Listed{"f:3/1", "f:1/1", "f:2/1"}));
}

TEST_F(LetterFileTest, ARecordThatDiedAgainKeepsItsPlaceAndSaysWhatItsLastLineSays) {
  write({{"f:1"}, {"f:2"}, {"f:1", "k", "x", 5}, {"f:3"}, {"f:1", "k", "x", 9}});
  EXPECT_EQ(listed(), (Listed{"f:1/9", "f:2/1", "f:3/1"}));
}

TEST_F(LetterFileTest, AnIdWithAnotherRecordIsAnotherLetter) {
  write({{"f:1", "k", "x"}, {"f:1", "k", "y"}});
  EXPECT_EQ(listed(), (Listed{"f:1/1", "f:1/1"}));
}

TEST_F(LetterFileTest, ReadingStopsWhenItIsTold) {
  write({{"f:1"}, {"f:2"}});
  Result<LetterFile> letters = LetterFile::open(file);
  int visits = 0;
  ASSERT_TRUE(letters->for_each([&](auto, auto&, auto) { return ++visits < 1; }));
  EXPECT_EQ(visits, 1);
  EXPECT_EQ(letters->read(1)->id, "f:2");
  EXPECT_EQ(letters->read(0)->id, "f:1");
}

TEST_F(LetterFileTest, WhatIsRemovedIsGoneWithAllItsLines) {
  write({{"f:1"}, {"f:2"}, {"f:3"}, {"f:1", "k", "x", 2}, {"f:2", "k", "x", 2}});
  Result<LetterFile> letters = LetterFile::open(file);
  ASSERT_TRUE(letters->remove({0}));
  EXPECT_EQ(folder.read("dead.jsonl"), line_of({"f:2", "k", "x", 2}) + line_of({"f:3"}));
}

TEST_F(LetterFileTest, WithItsLastLetterTheFileGoes) {
  write({{"f:1"}, {"f:2"}});
  ASSERT_TRUE(LetterFile::open(file)->remove({0, 1}));
  EXPECT_NE(access(file.c_str(), F_OK), 0);
}

TEST_F(LetterFileTest, DamagedLinesAreNamedAndLeftWhereTheyAre) {
  folder.write("dead.jsonl", line_of({"f:1"}) + "oops\n" + line_of({"f:2"}) + "{}\n" + "{\"id\":");
  Result<LetterFile> letters = LetterFile::open(file);
  EXPECT_EQ(letters->size(), 2U);
  EXPECT_EQ(letters->damaged(), (std::vector<std::uint64_t>{2, 4}));
  EXPECT_TRUE(letters->is_torn());
  ASSERT_TRUE(letters->remove({0, 1}));
  EXPECT_EQ(folder.read("dead.jsonl"), "oops\n{}\n");
}

TEST_F(LetterFileTest, ARewrittenFileIsAsPrivateAsItWas) {
  write({{"f:1"}, {"f:2"}});
  for (const mode_t mode : {0600U, 0640U}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    ASSERT_TRUE(LetterFile::open(file)->remove({0}));
    struct stat status{};
    ASSERT_EQ(stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, mode);
    write({{"f:1"}, {"f:2"}});
  }
}

TEST_F(LetterFileTest, WithoutRoomNothingIsRemovedAndNothingIsLeftBehind) {
  write({{"f:1"}, {"f:2", "k", std::string(100'000, 'x')}});
  const std::string before = folder.read("dead.jsonl");
  const auto body = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{50'000, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Result<void> removed = LetterFile::open(file)->remove({0});
    ASSERT_FALSE(removed);
    EXPECT_EQ(removed.error().code, ErrorCode::kIo);
  };
  expect_ends(body);
  EXPECT_EQ(folder.read("dead.jsonl"), before);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(LetterFileTest, AKillInTheMiddleLeavesTheOldLettersOrTheNewOnes) {
  std::vector<TestLetter> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back({"f:" + std::to_string(i), "k", std::string(2000, 'x')});
  }
  write(all);
  const std::string before = folder.read("dead.jsonl");
  write({all.begin() + 100, all.end()});
  const std::string after = folder.read("dead.jsonl");
  std::set<std::size_t> first_half;
  for (std::size_t i = 0; i < 100; ++i) first_half.insert(i);
  for (int round = 0; round < 40; ++round) {
    write(all);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(LetterFile::open(file)->remove(first_half) ? 0 : 1);
    usleep(static_cast<useconds_t>(round * 100));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string now = folder.read("dead.jsonl");
    EXPECT_TRUE(now == before || now == after) << round;
  }
}

TEST_F(LetterFileTest, NoLetterIsMissedThatComesWhileOthersAreRemoved) {
  constexpr std::size_t kLetters = 300;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto letters = dead_letter_file(file);
    for (std::size_t i = 0; i < kLetters; ++i) {
      const std::string id = "f:" + std::to_string(i);
      const Record record{.key = "k", .value = "x"};
      if (!letters->store({.record = &record, .source = "s", .id = id})) _exit(1);
    }
    _exit(0);
  }
  std::size_t removed = 0;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    Result<LetterFile> letters = LetterFile::open(file);
    ASSERT_TRUE(letters);
    if (letters->size() == 0) continue;
    const std::size_t half = (letters->size() + 1) / 2;
    std::set<std::size_t> which;
    for (std::size_t i = 0; i < half; ++i) which.insert(i);
    const Result<void> gone = letters->remove(which);
    ASSERT_TRUE(gone) << gone.error().message;
    removed += half;
  }
  EXPECT_EQ(status, 0);
  EXPECT_GT(removed, 0U);
  EXPECT_EQ(removed + listed().size(), kLetters);
}

TEST_F(LetterFileTest, OfTwoThatRemoveAtOnceOneIsTold) {
  write({{"f:1"}, {"f:2"}, {"f:3"}});
  Result<LetterFile> first = LetterFile::open(file);
  Result<LetterFile> second = LetterFile::open(file);
  ASSERT_TRUE(first->remove({0}));
  const Result<void> refused = second->remove({0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(listed(), (Listed{"f:2/1", "f:3/1"}));
}

}  // namespace
}  // namespace keyway::dead
