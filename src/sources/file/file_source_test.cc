#include "keyway/file_source.h"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "sources/file/source_driver.h"
#include "support/memory.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

using Values = std::vector<std::string>;

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

// ---- lines

TEST(FileSource, LinesAreRecordsWithPlaceAndNumber) {
  const TemporaryFolder folder;
  const std::string path = folder.write("orders.jsonl", "one\r\n\nthree");
  SourceDriver driver({.paths = {path}});
  EXPECT_EQ(driver.poll_all(), Polled::kEnd);
  EXPECT_EQ(driver.values(), (Values{"one", "", "three"}));
  EXPECT_EQ(driver.assigned.at(0), (Progress{.partition = 0}));
  const Record& last = driver.records.back();
  EXPECT_EQ(last.partition, 0);
  EXPECT_EQ(last.offset, 6);
  EXPECT_EQ(last.end, 11);
  EXPECT_EQ(last.number, 3U);
  EXPECT_EQ(last.key, std::nullopt);
  EXPECT_EQ(driver.source.name(), path);
  EXPECT_EQ(driver.source.place_of(last), path + ":3");
  EXPECT_EQ(driver.source.id_of(last), "f:3");
  EXPECT_EQ(driver.source.end_of(0), 11);
}

TEST(FileSource, RecordsOutliveTheSource) {
  const TemporaryFolder folder;
  std::vector<Record> records;
  {
    SourceDriver driver({.paths = {folder.write("a", "one\ntwo\n")}});
    driver.poll_all();
    records = driver.records;
  }
  EXPECT_EQ(records[1].value, "two");
}

TEST(FileSource, AnEmptyFileEndsAtOnce) {
  const TemporaryFolder folder;
  SourceDriver driver({.paths = {folder.write("a", "")}});
  EXPECT_EQ(driver.poll(), Polled::kEnd);
  EXPECT_EQ(driver.assigned.size(), 1U);
  EXPECT_TRUE(driver.records.empty());
}

TEST(FileSource, SeveralFilesAreReadInTurns) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 50; ++i) lines += "x\n";
  SourceDriver driver({.paths = {folder.write("a", lines), folder.write("b", lines + lines),
                                 folder.write("c", "")}});
  std::map<PartitionId, int> of;
  while (driver.poll(20) == Polled::kMore) {
    EXPECT_LE(driver.records.size(), 20U);
    for (const Record& record : driver.records) {
      EXPECT_EQ(record.number, static_cast<std::uint64_t>(++of[record.partition]));
    }
    // As long as both have some, neither is far ahead.
    const int ahead = of[0] < 50 ? std::abs(of[0] - of[1]) : 0;
    EXPECT_LE(ahead, 20);
    driver.records.clear();
  }
  EXPECT_EQ(driver.source.name(), folder.file("a") + " and 2 more");
  EXPECT_EQ(driver.source.id_of({.partition = 2, .number = 7}), "f2:7");
}

TEST(FileSource, APausedFileIsNotReadAndIsNotTheEnd) {
  const TemporaryFolder folder;
  SourceDriver driver({.paths = {folder.write("a", "a1\na2\n"), folder.write("b", "b1\nb2\n")}});
  driver.poll(2);
  driver.source.pause(1);
  EXPECT_EQ(driver.poll_all(), Polled::kIdle);
  EXPECT_EQ(driver.values(), (Values{"a1", "b1", "a2"}));
  driver.source.resume(1);
  EXPECT_EQ(driver.poll_all(), Polled::kEnd);
  EXPECT_EQ(driver.values().back(), "b2");
}

TEST(FileSource, ALineOf100MegabytesIsOneRecord) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a", "first\n" + std::string(100'000'000, 'x') + "\nlast\n");
  SourceDriver driver({.paths = {path}});
  const std::clock_t begin = std::clock();  // of the processor: others may keep it busy
  EXPECT_EQ(driver.poll_all(), Polled::kEnd);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_EQ(driver.records.size(), 3U);
  EXPECT_EQ(driver.records[1].value.size(), 100'000'000U);
  EXPECT_EQ(driver.records[2].value, "last");
  EXPECT_LT(seconds, kSanitized ? 20 : 2);
}

TEST(FileSource, ALineThatIsTooLongIsAnErrorWithItsPlace) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "first\n" + std::string(500'000, 'x') + "\nlast\n");
  SourceDriver driver({.paths = {path}, .max_line_bytes = 100'000});
  driver.poll_all();
  EXPECT_EQ(driver.error(), path +
                                ":2: the line has more than 100,000 bytes\n"
                                "  try: --max-inflight-bytes with more than that");
  EXPECT_EQ(driver.code(), ErrorCode::kIo);
}

// One record of each block is kept, as if its key were stuck: blocks alone would make 256 MB.
TEST(FileSource, RecordsThatAreKeptDoNotKeepTheirWholeFile) {
  KEYWAY_SKIP_IF_SANITIZED();
  const TemporaryFolder folder;
  const std::string line = std::string(1023, 'x') + "\n";
  {
    std::ofstream file(folder.file("a"), std::ios::binary);
    for (int i = 0; i < 256 * 1024; ++i) file << line;
  }
  SourceDriver driver({.paths = {folder.file("a")}});
  const std::int64_t before = resident_bytes();
  std::vector<Record> kept;
  while (driver.poll(60) == Polled::kMore) {
    kept.push_back(driver.records.front());
    driver.records.clear();
  }
  EXPECT_GT(kept.size(), 4000U);
  EXPECT_LT(resident_bytes() - before, 80 << 20);
  for (const Record& record : kept) ASSERT_EQ(record.value, std::string(1023, 'x'));
}

TEST(FileSource, WhatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  const std::string none = folder.file("none");
  SourceDriver missing({.paths = {none}});
  EXPECT_EQ(missing.error(), "cannot read " + none + ": No such file or directory");
  EXPECT_EQ(missing.code(), ErrorCode::kIo);
  EXPECT_EQ(SourceDriver({.paths = {folder.path()}}).error(),
            "cannot read " + folder.path() + ": Is a directory");
  EXPECT_EQ(SourceDriver({.paths = {}}).code(), ErrorCode::kInvalidArgument);
  const std::string path = folder.write("a", "");
  EXPECT_EQ(SourceDriver({.paths = {path, path}}).error(), path + " is named twice");
}

// ---- ids

TEST(FileSource, UniqueIdsAreTheSameAfterARestartAndOthersForOtherLines) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "head\nsame\nsame\n");
  const auto ids = [](SourceDriver&& driver) {
    driver.poll_all();
    std::vector<std::string> all;
    for (const Record& record : driver.records) all.push_back(driver.source.unique_id_of(record));
    return all;
  };
  const FileSourceOptions options{.paths = {path}, .checkpoint = folder.file("checkpoint")};
  const std::vector<std::string> first = ids(SourceDriver(options));
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0].size(), 32U);
  EXPECT_NE(first[1], first[2]) << "another place";
  {
    SourceDriver driver(options);
    driver.poll_all();
    ASSERT_TRUE(driver.commit(5).ok());
  }
  EXPECT_EQ(ids(SourceDriver(options)), (std::vector<std::string>{first[1], first[2]}));
  // Another beginning, but the same line at the same place.
  const std::string other = folder.write("b", "HEAD\nsame\nsame\n");
  EXPECT_NE(ids(SourceDriver({.paths = {other}}))[1], first[1]);
  // It has grown since.
  append(path, "more\n");
  EXPECT_EQ(ids(SourceDriver({.paths = {path}}))[2], first[2]);
}

// ---- position

TEST(FileSource, ThePositionKnowsHowMuchThereIs) {
  const TemporaryFolder folder;
  const FileSourceOptions options{
      .paths = {folder.write("a", "one\ntwo\nthree"), folder.write("b", "four\n")},
      .checkpoint = folder.file("checkpoint")};
  {
    SourceDriver driver(options);
    FileSource::Position at = driver.source.position();
    EXPECT_EQ(at.bytes, 0U);
    EXPECT_EQ(at.total_bytes, 18U);
    EXPECT_EQ(at.records, 0U);
    EXPECT_EQ(at.total_records, 4U);
    EXPECT_FALSE(at.resumed);
    driver.poll_all();
    at = driver.source.position();
    EXPECT_EQ(at.bytes, 18U);
    EXPECT_EQ(at.records, 4U);
    ASSERT_TRUE(driver.commit(4, {{8, 13}}).ok());
  }
  SourceDriver driver(options);
  EXPECT_EQ(driver.source.position().bytes, 4U);
  EXPECT_EQ(driver.source.position().records, 1U);
  EXPECT_EQ(driver.source.position().resumed_past, 2U);
  EXPECT_TRUE(driver.source.position().resumed);
  driver.poll_all();
  EXPECT_EQ(driver.values(), (Values{"two", "four"}));
  EXPECT_EQ(driver.source.position().records, 4U);
  EXPECT_EQ(driver.source.position().resumed_past, 2U);
}

TEST(FileSource, HowMuchComesOfAFollowedFileIsNotKnown) {
  const TemporaryFolder folder;
  SourceDriver driver({.paths = {folder.write("a", "one\n")}, .follow = true});
  EXPECT_EQ(driver.source.position().total_bytes, std::nullopt);
  EXPECT_EQ(driver.source.position().total_records, std::nullopt);
}

// ---- follow

TEST(FileSource, AFollowedFileGoesOnAndItsLastLineComesWithItsNewline) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "one\ntw");
  SourceDriver driver({.paths = {path}, .follow = true});
  EXPECT_EQ(driver.poll_all(), Polled::kIdle);
  EXPECT_LE(driver.idle_for, std::chrono::milliseconds(200));
  EXPECT_EQ(driver.values(), (Values{"one"}));
  append(path, "o\nthree");
  EXPECT_EQ(driver.poll_all(), Polled::kIdle);
  EXPECT_EQ(driver.values(), (Values{"one", "two"}));
  append(path, "\n");
  EXPECT_EQ(driver.poll_all(), Polled::kIdle);
  EXPECT_EQ(driver.values(), (Values{"one", "two", "three"}));
}

TEST(FileSource, AFileThatBecomesShorterIsAConflict) {
  const TemporaryFolder folder;
  for (const bool follow : {true, false}) {
    std::string lines;
    while (lines.size() < 200'000) lines += "a line\n";
    const std::string path = folder.write("a", lines);
    SourceDriver driver({.paths = {path}, .follow = follow});
    ASSERT_EQ(driver.poll(10), Polled::kMore);
    std::filesystem::resize_file(path, 14);
    driver.poll_all();
    EXPECT_EQ(driver.error(), path +
                                  " became shorter while it was read: 65,536 bytes were read, it "
                                  "has 14 now\n  try: --fresh, to begin again at its beginning");
    EXPECT_EQ(driver.code(), ErrorCode::kConflict);
  }
}

TEST(FileSource, AFollowedFileThatIsReplacedIsAConflictWhenAllOfItIsDone) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "one\n");
  for (const bool is_gone : {false, true}) {
    SourceDriver driver({.paths = {path}, .follow = true});
    EXPECT_EQ(driver.poll_all(), Polled::kIdle);
    std::filesystem::rename(path, folder.file("old"));
    append(folder.file("old"), "two\n");
    if (!is_gone) folder.write("a", "new\n");
    EXPECT_EQ(driver.poll_all(), Polled::kIdle);
    EXPECT_EQ(driver.values(), (Values{"one", "two"})) << "to the end of the old one";
    ASSERT_TRUE(driver.commit(4).ok());
    EXPECT_EQ(driver.poll_all(), Polled::kIdle);
    EXPECT_EQ(driver.error(), "");
    ASSERT_TRUE(driver.commit(8).ok());
    driver.poll_all();
    EXPECT_EQ(driver.error(),
              path + (is_gone ? " is gone" : " is another file now") +
                  ": the one that was followed was renamed or removed; all of its lines are done\n"
                  "  try: --fresh, to follow the new one from its beginning");
    EXPECT_EQ(driver.code(), ErrorCode::kConflict);
    folder.write("a", "one\n");
  }
}

// ---- pipes

class Fifo {
 public:
  explicit Fifo(std::string path) : path_(std::move(path)) { mkfifo(path_.c_str(), 0600); }
  void open_writer() { writer_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)); }
  void write(const std::string& text) const {
    EXPECT_EQ(::write(writer_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close() { writer_.close(); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  FileDescriptor writer_;
};

// A wake that can be waited for.
class Bell {
 public:
  std::function<void()> ring() {
    return [this] {
      MutexLock lock(mutex_);
      ++rung_;
      changed_.notify_all();
    };
  }
  // False if that does not come.
  bool wait() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (rung_ == 0 && std::chrono::steady_clock::now() < deadline) {
      changed_.wait_until(mutex_, deadline);
    }
    return std::exchange(rung_, 0) > 0;
  }

 private:
  Mutex<> mutex_;
  CondVar changed_;
  int rung_ KEYWAY_GUARDED_BY(mutex_) = 0;
};

TEST(FileSource, APipeIsNeverWaitedForAndWakesThePipeline) {
  const TemporaryFolder folder;
  Fifo fifo(folder.file("pipe"));
  Bell bell;
  SourceDriver driver({.paths = {fifo.path()}}, bell.ring());
  EXPECT_EQ(driver.poll_all(), Polled::kIdle) << "nobody writes to it yet";
  EXPECT_GE(driver.idle_for, std::chrono::seconds(1));
  fifo.open_writer();
  EXPECT_EQ(driver.poll_all(), Polled::kIdle);
  fifo.write("one\ntw");
  ASSERT_TRUE(bell.wait());
  EXPECT_EQ(driver.poll_all(), Polled::kIdle);
  EXPECT_EQ(driver.values(), (Values{"one"}));
  fifo.write("o\nthree");
  ASSERT_TRUE(bell.wait());
  EXPECT_EQ(driver.poll_all(), Polled::kIdle);
  fifo.close();
  ASSERT_TRUE(bell.wait());
  EXPECT_EQ(driver.poll_all(), Polled::kEnd);
  EXPECT_EQ(driver.values(), (Values{"one", "two", "three"}));
  EXPECT_EQ(driver.source.position().total_bytes, std::nullopt);
}

TEST(FileSource, ClosingEndsTheWaitForAPipe) {
  const TemporaryFolder folder;
  Fifo fifo(folder.file("pipe"));
  Bell bell;
  SourceDriver driver({.paths = {fifo.path()}}, bell.ring());
  EXPECT_EQ(driver.poll_all(), Polled::kIdle);
  driver.source.close();
}

TEST(FileSource, StandardInputEndsWithItsWriter) {
  const StandardInput input("one\ntwo");
  SourceDriver driver({.paths = {"-"}});
  EXPECT_EQ(driver.poll_all(), Polled::kEnd);
  EXPECT_EQ(driver.values(), (Values{"one", "two"}));
  EXPECT_EQ(driver.source.place_of(driver.records[1]), "stdin:2");
  EXPECT_EQ(driver.source.name(), "stdin");
}

TEST(FileSource, WhatIsDoneOfStandardInputIsPassedOver) {
  const TemporaryFolder folder;
  const FileSourceOptions options{.paths = {"-"}, .checkpoint = folder.file("checkpoint")};
  const std::string text = "one\ntwo\nthree\nfour\n";
  {
    const StandardInput input(text);
    SourceDriver driver(options);
    driver.poll_all();
    ASSERT_TRUE(driver.commit(4, {{8, 14}}).ok());
  }
  {
    const StandardInput input(text + "five\n");
    SourceDriver driver(options);
    EXPECT_EQ(driver.poll_all(), Polled::kEnd);
    EXPECT_EQ(driver.values(), (Values{"two", "four", "five"}));
    EXPECT_EQ(driver.records[0].number, 2U);
    EXPECT_EQ(driver.records[0].offset, 4);
    EXPECT_EQ(driver.source.position().resumed_past, 2U);
  }
  {
    const StandardInput input("ONE\ntwo\nthree\nfour\n");
    SourceDriver driver(options);
    driver.poll_all();
    EXPECT_EQ(driver.error(),
              "stdin is another one than before: its first 19 bytes differ\n"
              "  try: --fresh, to begin again at its beginning");
    EXPECT_TRUE(driver.records.empty());
  }
  const StandardInput input("on");
  SourceDriver driver(options);
  driver.poll_all();
  EXPECT_EQ(driver.error(),
            "stdin ended after 2 bytes, but an earlier run came to 4\n"
            "  try: --fresh, to begin again at its beginning");
  EXPECT_EQ(driver.code(), ErrorCode::kConflict);
}

}  // namespace
}  // namespace keyway
