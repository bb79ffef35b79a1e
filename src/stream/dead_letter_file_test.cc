#include "keyway/dead_letter_file.h"

#include <array>
#include <atomic>
#include <csignal>
#include <map>
#include <set>
#include <thread>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "stream/dead_letter_reader.h"
#include "support/own_process.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

using namespace std::chrono;

constexpr auto kTime = sys_days(2026y / November / 15) + 11h + 7min + 43s + 120ms;

struct Letter {
  Record record{.partition = 2, .offset = 88120, .key = "u7", .value = R"({"user":"u7"})"};
  DeadLetter dead{.record = &record,
                  .source = "orders.jsonl",
                  .id = "f:1042",
                  .attempts = 4,
                  .cause = "exit 1",
                  .exit = 1,
                  .stderr_tail = "no such user\n",
                  .first = kTime,
                  .last = kTime + 3s};
};

void store_value(DeadLetters& letters, std::string_view value, std::string_view id = "f:1") {
  Letter letter;
  letter.record.value = value;
  letter.dead.id = id;
  const Result<void> stored = letters.store(letter.dead);
  ASSERT_TRUE(stored) << stored.error().message;
}

std::vector<StoredLetter> read_all(const std::string& path) {
  std::vector<StoredLetter> letters;
  Result<DeadLetterReader> reader = DeadLetterReader::open(path);
  EXPECT_TRUE(reader);
  while (true) {
    const Result<DeadLetterReader::Next> next = reader->next();
    EXPECT_TRUE(next);
    if (*next == DeadLetterReader::Next::kEnd) return letters;
    EXPECT_EQ(*next, DeadLetterReader::Next::kLetter) << reader->line();
    letters.push_back(reader->letter());
  }
}

TEST(DeadLetterFile, ALineSaysEverythingAboutTheLetter) {
  TemporaryFolder folder;
  Letter letter;
  ASSERT_TRUE(dead_letter_file(folder.file("dead.jsonl"))->store(letter.dead));
  EXPECT_EQ(folder.read("dead.jsonl"),
            R"({"id":"f:1042","key":"u7","group":"u7","attempts":4,)"
            R"("first":"2026-11-15T11:07:43.120Z","last":"2026-11-15T11:07:46.120Z",)"
            R"("cause":"exit 1","exit":1,"stderr_tail":"no such user\n",)"
            R"("source":{"topic":"orders.jsonl","partition":2,"offset":88120},)"
            R"("unique_id":null,"record":{"user":"u7"}})"
            "\n");
}

TEST(DeadLetterFile, WhatIsNotThereIsNull) {
  TemporaryFolder folder;
  Letter letter;
  letter.record.key.reset();
  letter.dead.exit.reset();
  ASSERT_TRUE(dead_letter_file(folder.file("dead.jsonl"))->store(letter.dead));
  const std::string line = folder.read("dead.jsonl");
  EXPECT_NE(line.find(R"("key":null,"group":null)"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("exit":null)"), std::string::npos) << line;
}

TEST(DeadLetterFile, TheRecordIsJsonOrTextOrBytes) {
  TemporaryFolder folder;
  const auto letters = dead_letter_file(folder.file("dead.jsonl"));
  const std::pair<std::string_view, std::string_view> records[] = {
      {R"({"a": [1, 2.50, null]})", R"("record":{"a": [1, 2.50, null]})"},
      {"[]", R"("record":[])"},
      {"17", R"("record":17})"},
      {"null", R"("record":null})"},
      {"order 17", R"("record":"order 17")"},
      {R"("a string")", R"("record":"\"a string\"")"},
      {R"( {"a":1})", R"("record":" {\"a\":1}")"},
      {"{\"a\":\n1}", R"("record":"{\"a\":\n1}")"},
      {R"({"a":1)", R"("record":"{\"a\":1")"},
      {R"({"a":123456789012345678901234567890})", R"("record":"{\"a\":123456789012345678901234)"},
      {"", R"("record":"")"},
      {"gr\xc3\xbc\xc3\x9f", "\"record\":\"gr\xc3\xbc\xc3\x9f\""},
      {"\xff\xfe", R"("record_b64":"//4=")"},
      {std::string_view("\0\r\n", 3), R"("record":"\u0000\u000d\n")"}};
  for (const auto& [value, field] : records) store_value(*letters, value);
  const std::string text = folder.read("dead.jsonl");
  std::vector<StoredLetter> read = read_all(folder.file("dead.jsonl"));
  ASSERT_EQ(read.size(), std::size(records));
  std::size_t at = 0;
  for (const auto& [value, field] : records) {
    EXPECT_EQ(read[at++].record, value);
    EXPECT_NE(text.find(field), std::string::npos) << field;
  }
}

TEST(DeadLetterFile, KeysComeBackAsTheyWereAndTextsStayReadable) {
  TemporaryFolder folder;
  Letter letter;
  letter.record.key = "k\xff";
  letter.record.group = "g\"\n";
  letter.dead.unique_id = "00ff";
  letter.dead.cause = "bad \xe2\x82 end";
  letter.dead.stderr_tail = "\x82\xac then \xe2\x82\xac";
  ASSERT_TRUE(dead_letter_file(folder.file("dead.jsonl"))->store(letter.dead));
  const std::vector<StoredLetter> read = read_all(folder.file("dead.jsonl"));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].key, "k\xff");
  EXPECT_EQ(read[0].group, "g\"\n");
  EXPECT_EQ(read[0].unique_id, "00ff");
  EXPECT_EQ(read[0].cause, "bad \xef\xbf\xbd\xef\xbf\xbd end");
  EXPECT_EQ(read[0].stderr_tail, "\xef\xbf\xbd\xef\xbf\xbd then \xe2\x82\xac");
  EXPECT_EQ(read[0].first, kTime);
  EXPECT_EQ(read[0].last, kTime + 3s);
  EXPECT_EQ(read[0].attempts, 4);
  EXPECT_EQ(read[0].exit, 1);
  EXPECT_EQ(read[0].source, "orders.jsonl");
  EXPECT_EQ(read[0].partition, 2);
  EXPECT_EQ(read[0].offset, 88120);
}

TEST(DeadLetterFile, IsMadeWithItsFirstLetterAndForItsOwnerAlone) {
  TemporaryFolder folder;
  const auto letters = dead_letter_file(folder.file("dead.jsonl"));
  struct stat status{};
  EXPECT_NE(stat(folder.file("dead.jsonl").c_str(), &status), 0);
  store_value(*letters, "1");
  ASSERT_EQ(stat(folder.file("dead.jsonl").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(DeadLetterFile, ATornLastLineIsCutOffBeforeTheNextLetter) {
  TemporaryFolder folder;
  store_value(*dead_letter_file(folder.file("dead.jsonl")), "1");
  const std::string first = folder.read("dead.jsonl");
  for (const std::size_t torn : {std::size_t{1}, first.size() / 2, first.size() - 2}) {
    folder.write("dead.jsonl", first + first.substr(0, torn));
    store_value(*dead_letter_file(folder.file("dead.jsonl")), "1");
    EXPECT_EQ(folder.read("dead.jsonl"), first + first);
  }
  // Longer than one step of the search for its beginning.
  folder.write("dead.jsonl", first + "{\"id\":\"" + std::string(100'000, 'x'));
  store_value(*dead_letter_file(folder.file("dead.jsonl")), "1");
  EXPECT_EQ(folder.read("dead.jsonl"), first + first);
  folder.write("dead.jsonl", "{\"id");
  store_value(*dead_letter_file(folder.file("dead.jsonl")), "1");
  EXPECT_EQ(folder.read("dead.jsonl"), first);
}

TEST(DeadLetterFile, AWholeLastLineWithoutANewlineIsKept) {
  TemporaryFolder folder;
  store_value(*dead_letter_file(folder.file("dead.jsonl")), "1");
  const std::string first = folder.read("dead.jsonl");
  folder.write("dead.jsonl", first.substr(0, first.size() - 1));
  store_value(*dead_letter_file(folder.file("dead.jsonl")), "1");
  EXPECT_EQ(folder.read("dead.jsonl"), first + first);
}

TEST(DeadLetterFile, AFileThatWasRemovedIsMadeAgain) {
  TemporaryFolder folder;
  const auto letters = dead_letter_file(folder.file("dead.jsonl"));
  store_value(*letters, "1");
  unlink(folder.file("dead.jsonl").c_str());
  store_value(*letters, "2");
  EXPECT_EQ(read_all(folder.file("dead.jsonl")).size(), 1U);
}

TEST(DeadLetterFile, AFolderThatIsNotThereIsAnErrorThatNamesTheFile) {
  TemporaryFolder folder;
  Letter letter;
  const Result<void> stored = dead_letter_file(folder.file("none/dead.jsonl"))->store(letter.dead);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, ErrorCode::kIo);
  EXPECT_NE(stored.error().message.find("none/dead.jsonl: No such file"), std::string::npos);
}

TEST(DeadLetterFile, OfALetterForWhichThereIsNoRoomNothingIsLeft) {
  TemporaryFolder folder;
  const auto body = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const auto letters = dead_letter_file(folder.file("dead.jsonl"));
    store_value(*letters, "1");
    const std::string first = folder.read("dead.jsonl");
    const rlimit limit{first.size() + 1000, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string large(2000, 'x');
    Letter letter;
    letter.record.value = large;
    const Result<void> stored = letters->store(letter.dead);
    ASSERT_FALSE(stored);
    EXPECT_EQ(stored.error().code, ErrorCode::kIo);
    EXPECT_NE(stored.error().message.find("dead.jsonl: File too large"), std::string::npos)
        << stored.error().message;
    EXPECT_EQ(folder.read("dead.jsonl"), first);
    // There is room for a small one still, and it is whole.
    store_value(*letters, "1");
    EXPECT_EQ(folder.read("dead.jsonl"), first + first);
  };
  expect_ends(body);
}

TEST(DeadLetterFile, ManyThreadsStoreWholeLines) {
  TemporaryFolder folder;
  const auto letters = dead_letter_file(folder.file("dead.jsonl"));
  constexpr int kThreads = 8;
  constexpr int kEach = 50;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kEach; ++i) {
          store_value(*letters, std::string(static_cast<std::size_t>(i * 40), 'x'),
                      std::to_string(thread) + ":" + std::to_string(i));
        }
      });
    }
  }
  std::set<std::string> ids;
  for (const StoredLetter& letter : read_all(folder.file("dead.jsonl"))) ids.insert(letter.id);
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(kThreads * kEach));
}

TEST(DeadLetterFile, ProcessesThatShareAFileStoreWholeLines) {
  TemporaryFolder folder;
  const std::string path = folder.file("dead.jsonl");
  std::array<pid_t, 3> children{};
  for (std::size_t which = 0; which < children.size(); ++which) {
    children[which] = fork();
    ASSERT_GE(children[which], 0);
    if (children[which] != 0) continue;
    for (int i = 0; i < 50; ++i) {
      // Opened anew each time: a torn line that it finds must not be one that another is writing.
      const std::string value(static_cast<std::size_t>(i * 200), 'x');
      store_value(*dead_letter_file(path), value, std::to_string(which) + ":" + std::to_string(i));
    }
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::set<std::string> ids;
  for (const StoredLetter& letter : read_all(path)) ids.insert(letter.id);
  EXPECT_EQ(ids.size(), 150U);
}

// A child stores and says through a pipe what was acknowledged, until it is killed.
TEST(DeadLetterFile, WhatWasAcknowledgedIsThereAfterAKill) {
  TemporaryFolder folder;
  const std::string path = folder.file("dead.jsonl");
  std::map<std::string, int> acknowledged;
  for (int round = 0; round < 40; ++round) {
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(pipe_ends[0]);
      const auto letters = dead_letter_file(path);
      for (int i = 0;; ++i) {
        Letter letter;
        const std::string id = std::to_string(round) + ":" + std::to_string(i);
        const std::string value(static_cast<std::size_t>(i % 7 * 3000), 'x');
        letter.dead.id = id;
        letter.record.value = value;
        if (!letters->store(letter.dead)) _exit(1);
        if (write(pipe_ends[1], &i, sizeof(i)) != sizeof(i)) _exit(1);
      }
    }
    close(pipe_ends[1]);
    // The moment of the kill is after a number of letters, and then wherever the child happens to be.
    int last = -1;
    const int enough = round % 20;
    for (int i = 0; last < enough && read(pipe_ends[0], &i, sizeof(i)) == sizeof(i);) last = i;
    usleep(static_cast<useconds_t>(round * 53 % 2000));
    kill(child, SIGKILL);
    for (int i = 0; read(pipe_ends[0], &i, sizeof(i)) == sizeof(i);) last = i;
    close(pipe_ends[0]);
    waitpid(child, nullptr, 0);
    for (int i = 0; i <= last; ++i) {
      acknowledged[std::to_string(round) + ":" + std::to_string(i)] = i;
    }
  }
  store_value(*dead_letter_file(path), "1", "last");  // cuts off what the last kill left
  std::set<std::string> found;
  for (const StoredLetter& letter : read_all(path)) found.insert(letter.id);
  for (const auto& [id, number] : acknowledged) EXPECT_TRUE(found.contains(id)) << id;
  // At most one of each round was stored and could not say so any more.
  EXPECT_LE(found.size(), acknowledged.size() + 41);
}

TEST(DeadLetterLog, ALetterIsOneLineThatALogUnderstands) {
  std::vector<std::string> lines;
  const auto letters = dead_letter_log([&](std::string_view line) {
    lines.emplace_back(line);
    return Result<void>();
  });
  Letter letter;
  ASSERT_TRUE(letters->store(letter.dead));
  letter.record.key.reset();
  letter.record.value = "a\nb";
  ASSERT_TRUE(letters->store(letter.dead));
  EXPECT_EQ(lines[0],
            R"({"severity":"ERROR","event_type":"POISON_PILL","time":"2026-11-15T11:07:46.120Z",)"
            R"("id":"f:1042","key":"u7","attempts":4,"cause":"exit 1","payload":{"user":"u7"}})");
  EXPECT_NE(lines[1].find(R"("key":null)"), std::string::npos);
  EXPECT_NE(lines[1].find(R"("payload":"a\nb")"), std::string::npos);
}

TEST(DeadLetterLog, AFailureToWriteIsAFailureToStore) {
  const auto letters = dead_letter_log(
      [](std::string_view) -> Result<void> { return Error{ErrorCode::kIo, "the log is closed"}; });
  Letter letter;
  const Result<void> stored = letters->store(letter.dead);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().message, "the log is closed");
}

}  // namespace
}  // namespace keyway
