// What a FileSource stores, knows again and refuses.
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "keyway/file_source.h"
#include "sources/file/source_driver.h"
#include "stream/ledger.h"
#include "support/own_process.h"
#include "support/schedules.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

using Values = std::vector<std::string>;

// Five lines of which the first two, and the fourth, are done.
class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    SourceDriver driver(options_);
    driver.poll_all();
    EXPECT_EQ(driver.records.size(), 5U);
    EXPECT_TRUE(driver.commit(driver.records[2].offset, {{14, 19}}).ok());
  }
  // What it says if it is opened and read now.
  std::string error_now() {
    SourceDriver driver(options_);
    if (driver.is_open()) driver.poll_all();
    if (driver.error().empty()) return "";
    EXPECT_EQ(driver.code(), ErrorCode::kConflict);
    return driver.error();
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.write("orders", "one\ntwo\nthree\nfour\nfive\n");
  FileSourceOptions options_{
      .paths = {path_}, .checkpoint = folder_.file("checkpoint"), .settings = "key=.user"};
};

TEST_F(ResumeTest, BeginsWithWhatIsNotDone) {
  SourceDriver driver(options_);
  EXPECT_EQ(driver.poll_all(), Polled::kEnd);
  EXPECT_EQ(driver.values(), (Values{"three", "five"}));
  EXPECT_EQ(driver.records[0].number, 3U);
  EXPECT_EQ(driver.records[1].number, 5U);
  EXPECT_EQ(driver.assigned.at(0),
            (Progress{.partition = 0, .watermark = 8, .done_above = {{14, 19}}}));
}

TEST_F(ResumeTest, AFileThatHasGrownGoesOn) {
  std::ofstream(path_, std::ios::app) << "six\n";
  SourceDriver driver(options_);
  driver.poll_all();
  EXPECT_EQ(driver.values(), (Values{"three", "five", "six"}));
}

TEST_F(ResumeTest, OtherSettingsAreAConflict) {
  options_.settings = "key=.customer";
  EXPECT_EQ(error_now(), options_.checkpoint +
                             " was made with other settings: key=.user; now they are "
                             "key=.customer\n  try: the same settings, or --fresh to begin again");
}

TEST_F(ResumeTest, OtherFilesAreAConflict) {
  const std::string other = folder_.write("other", folder_.read("orders"));
  options_.paths = {other};
  EXPECT_EQ(error_now(), options_.checkpoint + " is of " + path_ + ", not of " + other +
                             "\n  try: --fresh, to begin again; or --state DIR");
  options_.paths = {path_, other};
  EXPECT_EQ(error_now(), options_.checkpoint +
                             " is of 1 files, not of 2\n"
                             "  try: the same files, or --fresh to begin again");
}

TEST_F(ResumeTest, TheSameFileByAnotherNameIsTheSame) {
  options_.paths = {folder_.path() + "/./orders"};
  EXPECT_EQ(error_now(), "");
}

TEST_F(ResumeTest, AFileThatIsShorterIsAConflict) {
  std::filesystem::resize_file(path_, 7);
  EXPECT_EQ(error_now(), path_ +
                             " has 7 bytes, but had 24 at least when it was read before\n"
                             "  try: --fresh, to begin again at its beginning");
}

TEST_F(ResumeTest, AFileThatBeginsOtherwiseIsAConflict) {
  folder_.write("orders", "one\ntwo\nTHREE\nfour\nfive\nsix\n");
  EXPECT_EQ(error_now(), path_ +
                             " is another one than before: its first 24 bytes differ\n"
                             "  try: --fresh, to begin again at its beginning");
}

TEST_F(ResumeTest, ADamagedCheckpointIsAConflict) {
  std::string text = folder_.read("checkpoint");
  text[text.size() / 2] ^= 1;
  folder_.write("checkpoint", text);
  EXPECT_EQ(error_now(), options_.checkpoint +
                             " is damaged: its checksum does not fit its content\n"
                             "  try: --fresh, to begin again: what was done is done again");
}

TEST_F(ResumeTest, WithoutItsCheckpointItBeginsAgain) {
  std::filesystem::remove(options_.checkpoint);
  SourceDriver driver(options_);
  driver.poll_all();
  EXPECT_EQ(driver.records.size(), 5U);
  EXPECT_FALSE(driver.source.position().resumed);
}

TEST_F(ResumeTest, ACommitThatFailsNamesTheFileAndLeavesTheOldOne) {
  const std::string before = folder_.read("checkpoint");
  SourceDriver driver(options_);
  driver.poll_all();
  std::filesystem::rename(options_.checkpoint, folder_.file("kept"));
  std::filesystem::create_directory(options_.checkpoint);
  const Result<void> failed = driver.commit(24);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_FALSE(failed.error().retryable);
  EXPECT_EQ(failed.error().message, "cannot write " + options_.checkpoint + ": Is a directory");
  // It is tried again, as a pipeline would.
  std::filesystem::remove(options_.checkpoint);
  std::filesystem::rename(folder_.file("kept"), options_.checkpoint);
  EXPECT_EQ(folder_.read("checkpoint"), before);
  ASSERT_TRUE(driver.commit(24).ok());
  SourceDriver next(options_);
  EXPECT_EQ(next.poll_all(), Polled::kEnd);
  EXPECT_TRUE(next.records.empty());
}

// Seen by the calling process alone.
bool mount_small_disk(const std::string& place) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", place.c_str(), "tmpfs", 0, "size=8k") == 0;
}

bool may_mount(const std::string& place) {
  const pid_t child = fork();
  if (child == 0) std::_Exit(mount_small_disk(place) ? 0 : 1);
  int state = 0;
  return waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

// A disk that is full: time may help.
TEST_F(ResumeTest, ACommitToAFullDiskCanBeTriedAgain) {
  const std::string small = folder_.file("small");
  std::filesystem::create_directory(small);
  if (!may_mount(small)) GTEST_SKIP() << "SKIPPED: a small disk cannot be mounted here";
  expect_ends([&] {
    ASSERT_TRUE(mount_small_disk(small));
    options_.checkpoint = small + "/checkpoint";
    std::filesystem::copy(folder_.file("checkpoint"), options_.checkpoint);
    const std::string before = folder_.read("small/checkpoint");
    SourceDriver driver(options_);
    driver.poll_all();
    std::ofstream(small + "/filler") << std::string(4096, 'x');
    const Result<void> failed = driver.commit(24);
    ASSERT_FALSE(failed.ok());
    EXPECT_TRUE(failed.error().retryable);
    EXPECT_TRUE(failed.error().message.starts_with("cannot write " + options_.checkpoint +
                                                   ": No space left on device"));
    EXPECT_EQ(folder_.read("small/checkpoint"), before);
    std::filesystem::remove(small + "/filler");
    EXPECT_TRUE(driver.commit(24).ok());
  });
}

// All that was read is done, and what follows was done before: so a ledger says that the watermark is above what was read.
TEST_F(ResumeTest, AWatermarkAboveWhatWasReadIsStoredSoThatLinesKeepTheirNumbers) {
  std::filesystem::remove(options_.checkpoint);
  {
    SourceDriver driver(options_);
    driver.poll_all();
    ASSERT_TRUE(driver.commit(0, {{4, 14}}).ok());
  }
  {
    SourceDriver driver(options_);
    driver.poll(1);
    ASSERT_EQ(driver.values(), (Values{"one"}));
    ASSERT_TRUE(driver.commit(14).ok());
  }
  SourceDriver driver(options_);
  driver.poll_all();
  EXPECT_EQ(driver.values(), (Values{"four", "five"}));
  EXPECT_EQ(driver.records.at(0).number, 4U);
}

TEST_F(ResumeTest, ALastLineWithoutNewlineThatGetsOneIsNotReadAgain) {
  folder_.write("orders", "one\ntwo");
  std::filesystem::remove(options_.checkpoint);
  {
    SourceDriver driver(options_);
    EXPECT_EQ(driver.poll_all(), Polled::kEnd);
    ASSERT_TRUE(driver.commit(7).ok());
  }
  EXPECT_EQ(error_now(), "");
  std::ofstream(path_, std::ios::app) << "\nthree\n";
  {
    SourceDriver driver(options_);
    EXPECT_EQ(driver.poll_all(), Polled::kEnd);
    EXPECT_EQ(driver.values(), (Values{"three"}));
    EXPECT_EQ(driver.records[0].number, 3U);
    EXPECT_EQ(driver.records[0].offset, 8);
    ASSERT_TRUE(driver.commit(14).ok());
  }
  std::ofstream(path_, std::ios::app) << "four";
  {
    SourceDriver driver(options_);
    EXPECT_EQ(driver.poll_all(), Polled::kEnd);
    EXPECT_EQ(driver.records.at(0).number, 4U);
    ASSERT_TRUE(driver.commit(18).ok());
  }
  std::ofstream(path_, std::ios::app) << "teen\n";
  EXPECT_EQ(error_now(), path_ +
                             " went on after its last line: that had no newline when it was read "
                             "before\n  try: --fresh, to begin again at its beginning");
}

TEST_F(ResumeTest, ALastLineThatIsDoneAboveAGapMayNotGoOnEither) {
  folder_.write("orders", "one\ntwo");
  std::filesystem::remove(options_.checkpoint);
  {
    SourceDriver driver(options_);
    driver.poll_all();
    ASSERT_TRUE(driver.commit(0, {{4, 7}}).ok());
  }
  std::ofstream(path_, std::ios::app) << "fold\n";
  EXPECT_NE(error_now().find("went on after a last line without newline"), std::string::npos);
}

// ---- seeded runs: what came, what was done, what was committed, crash, and again

struct Line {
  Offset offset = 0;
  Offset end = 0;
  std::uint64_t number = 0;
  std::string text;
  auto operator<=>(const Line&) const = default;
};
using Lines = std::map<PartitionId, std::set<Line>>;

Lines lines_of(const std::vector<Record>& records) {
  Lines lines;
  for (const Record& record : records) {
    lines[record.partition].insert(
        {record.offset, record.end, record.number, std::string(record.value)});
  }
  return lines;
}

class ResumeSchedule {
 public:
  ResumeSchedule(std::uint64_t seed, bool /*planted*/) : random_(seed) {
    files_ = 1 + below(3);
    first_is_stream_ = below(3) == 0;
    for (std::size_t i = 0; i < files_; ++i) {
      texts_.emplace_back();
      options_.paths.push_back(i == 0 && first_is_stream_ ? "-" : file(i));
      grow(i);
    }
    options_.checkpoint = folder_.file("checkpoint");
  }

  // The first thing that is wrong, or nothing.
  std::string run() {
    for (int runs = 0; runs < 6 && wrong_.empty(); ++runs) {
      if (below(3) == 0) grow(below(files_));
      expect_rest();
      if (wrong_.empty()) process_some();
    }
    return wrong_;
  }

 private:
  std::size_t below(std::size_t most) { return random_() % most; }
  std::string file(std::size_t i) const { return folder_.file("f" + std::to_string(i)); }

  void grow(std::size_t i) {
    std::string& text = texts_[i];
    // Now and then more than a block.
    const std::size_t lines = below(12) == 0 && !first_is_stream_ ? 4000 : below(30);
    for (std::size_t line = 0; line < lines; ++line) {
      text.append(below(40), static_cast<char>('a' + below(26)));
      text += below(5) == 0 ? "\r\n" : "\n";
    }
    folder_.write("f" + std::to_string(i), text);
  }

  std::unique_ptr<SourceDriver> open() {
    input_.reset();
    if (first_is_stream_) input_.emplace(texts_[0]);
    auto driver = std::make_unique<SourceDriver>(options_);
    wrong_ = driver->error();
    return driver;
  }

  // All lines but those that the last commit covers.
  Lines expected() const {
    Lines lines;
    for (std::size_t i = 0; i < files_; ++i) {
      const auto id = static_cast<PartitionId>(i);
      const auto found = committed_.find(id);
      const Progress done = found == committed_.end() ? Progress{.partition = id} : found->second;
      const std::string& text = texts_[i];
      std::uint64_t number = 0;
      for (std::size_t begin = 0; begin < text.size();) {
        ++number;
        const std::size_t end = text.find('\n', begin) + 1;
        const auto offset = static_cast<Offset>(begin);
        std::string line = text.substr(begin, end - begin - 1);
        if (line.ends_with('\r')) line.pop_back();
        if (offset >= done.watermark && !contains(done.done_above, offset)) {
          lines[id].insert({offset, static_cast<Offset>(end), number, line});
        }
        begin = end;
      }
    }
    return lines;
  }

  void expect_rest() {
    const auto driver = open();
    if (!wrong_.empty()) return;
    if (driver->poll_all(1 + below(50)) != Polled::kEnd) wrong_ = "no end";
    if (!driver->error().empty()) wrong_ = driver->error();
    if (lines_of(driver->records) != expected())
      wrong_ = "other lines than those that are not done";
    std::size_t all = 0;
    for (const auto& [id, lines] : lines_of(driver->records)) all += lines.size();
    if (all != driver->records.size()) wrong_ = "a line came twice";
  }

  // Some are done, some is committed, and then it is as if the process were killed.
  void process_some() {
    const auto driver = open();
    if (!wrong_.empty()) return;
    std::map<PartitionId, std::unique_ptr<Ledger>> ledgers;
    std::vector<Ledger::Entry*> pending;
    for (std::size_t steps = below(60); steps > 0; --steps) {
      driver->records.clear();
      driver->poll(1 + below(40));
      for (auto& [id, progress] : std::exchange(driver->assigned, {})) {
        ledgers[id] = std::make_unique<Ledger>(progress);
      }
      for (const Record& record : driver->records) {
        pending.push_back(&ledgers[record.partition]->add(record.offset, record.end));
      }
      for (std::size_t settles = below(60); settles > 0 && !pending.empty(); --settles) {
        std::swap(pending[below(pending.size())], pending.back());
        pending.back()->settle(Ledger::State::kDone);
        pending.pop_back();
      }
      if (below(4) == 0) commit(*driver, ledgers);
    }
  }

  void commit(SourceDriver& driver, std::map<PartitionId, std::unique_ptr<Ledger>>& ledgers) {
    std::vector<Progress> changed;
    for (auto& [id, ledger] : ledgers) {
      if (below(4) > 0) changed.push_back(ledger->snapshot());
    }
    if (!driver.source.commit(changed).ok()) wrong_ = "a commit failed";
    for (const Progress& one : changed) committed_[one.partition] = one;
  }

  std::mt19937_64 random_;
  const TemporaryFolder folder_{memory_folder()};
  FileSourceOptions options_;
  std::size_t files_ = 0;
  bool first_is_stream_ = false;
  std::vector<std::string> texts_;
  std::optional<StandardInput> input_;
  std::map<PartitionId, Progress> committed_;
  std::string wrong_;
};

TEST(ResumeSchedules, WhatComesAgainIsExactlyWhatNoCommitCovers) {
  expect_schedules_hold<ResumeSchedule>(0, 500);
}

}  // namespace
}  // namespace keyway
