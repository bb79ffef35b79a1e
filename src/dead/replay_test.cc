#include "dead/replay.h"

#include <atomic>

#include <sys/wait.h>
#include <unistd.h>

#include "dead/letter_fixture.h"
#include "keyway/dead_letter_file.h"

namespace keyway::dead {
namespace {

struct ReplayTest : LetterFixture {
  // `script`: what sh does for a record, which is $1; its key is $2.
  Replay replay_with(const std::string& script) const {
    Replay replay{.options = {}, .file = file, .selection = {}};
    replay.options.argv = {"sh", "-c", script, "sh", "{}", "{key}"};
    replay.options.state_dir = folder.path();
    replay.options.jobs = 4;
    replay.options.retries = 1;
    replay.options.backoff = {std::chrono::milliseconds(1), std::chrono::milliseconds(2)};
    return replay;
  }
  jobs::Summary run(const Replay& what) const {
    Result<jobs::Summary> summary = replay(what, {});
    EXPECT_TRUE(summary) << summary.error().message;
    return summary ? *summary : jobs::Summary();
  }
  std::string log() const { return folder.file("log"); }
};

TEST_F(ReplayTest, LettersThatAreHandledGo) {
  write({{"f:1", "a", "one"}, {"f:2", "b", "two"}});
  const jobs::Summary summary = run(replay_with("echo $1 >>" + log()));
  EXPECT_EQ(summary.ok, 2U);
  EXPECT_EQ(summary.failed, 0U);
  EXPECT_NE(access(file.c_str(), F_OK), 0);
  EXPECT_EQ(folder.read("log").size(), 8U);
}

TEST_F(ReplayTest, LettersThatDieAgainStayInTheirPlaceWithTheirTriesAddedUp) {
  write({{"f:1", "a", "one", 4}, {"f:2", "b", "two", 4}, {"f:3", "a", "three", 4}});
  const jobs::Summary summary = run(replay_with("echo oops >&2; [ $1 = two ]"));
  EXPECT_EQ(summary.ok, 1U);
  EXPECT_EQ(summary.failed, 2U);
  EXPECT_EQ(listed(), (Listed{"f:1/6", "f:3/6"}));
  const Result<StoredLetter> letter = LetterFile::open(file)->read(0);
  EXPECT_EQ(letter->source, "orders.jsonl");
  EXPECT_EQ(letter->exit, 1);
  EXPECT_EQ(letter->stderr_tail, "oops\n");
  EXPECT_EQ(letter->record, "one");
}

TEST_F(ReplayTest, AKeysLettersComeInOrderAndOneAtATime) {
  std::vector<TestLetter> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back({"f:" + std::to_string(i), i % 2 == 0 ? "a" : "b", std::to_string(i)});
  }
  write(all);
  run(replay_with("echo begin $1 >>" + log() + ".$2; echo end $1 >>" + log() + ".$2"));
  for (const char* key : {"a", "b"}) {
    std::string expected;
    for (const TestLetter& letter : all) {
      if (letter.key != key) continue;
      expected += "begin " + letter.record + "\nend " + letter.record + "\n";
    }
    EXPECT_EQ(folder.read(std::string("log.") + key), expected);
  }
}

TEST_F(ReplayTest, OnlyThoseThatAreMeantAreReplayed) {
  write({{"f:1", "a", "1"}, {"f:2", "b", "2"}, {"f:3", "a", "3"}});
  Replay some = replay_with("echo $1 >>" + log());
  some.selection.ids = {"f:2"};
  run(some);
  EXPECT_EQ(folder.read("log"), "2\n");
  EXPECT_EQ(listed(), (Listed{"f:1/1", "f:3/1"}));
  some.selection = {.key = "a"};
  run(some);
  EXPECT_EQ(folder.read("log"), "2\n1\n3\n");
}

TEST_F(ReplayTest, AnIdThatNoLetterHasIsToldBeforeAnythingIsHandled) {
  write({{"f:1", "a", "1"}});
  Replay wrong = replay_with("echo $1 >>" + log());
  wrong.selection.ids = {"f:1", "f:7"};
  const Result<jobs::Summary> refused = replay(wrong, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("no dead letter f:7"), std::string::npos);
  EXPECT_EQ(folder.read("log"), "");
}

TEST_F(ReplayTest, WithParkTheLettersBehindADeadOneStayAsTheyWere) {
  write({{"f:1", "a", "1", 4, "exit 9"}, {"f:2", "a", "2", 4, "exit 8"}});
  Replay parks = replay_with("exit 1");
  parks.options.on_dead = OnDead::kPark;
  run(parks);
  EXPECT_EQ(listed(), (Listed{"f:1/6", "f:2/4"}));
  EXPECT_EQ(LetterFile::open(file)->read(1)->cause, "exit 8");
}

TEST_F(ReplayTest, ALetterThatIsStoredMeanwhileStays) {
  write({{"f:1", "a", "1"}});
  const Record record{.key = "z", .value = "new"};
  Replay replay = replay_with("exit 0");
  run::Watch watch;
  watch.attempt_ended = [&](const LoggedAttempt&) {
    EXPECT_TRUE(dead_letter_file(file)->store({.record = &record, .source = "s", .id = "f:9"}));
  };
  EXPECT_TRUE(dead::replay(replay, watch));
  EXPECT_EQ(listed(), (Listed{"f:9/0"}));
}

// The handler says what it has done; the replay is killed, and done again.
TEST_F(ReplayTest, AfterAKillEveryLetterIsHandledOrThere) {
  std::vector<TestLetter> all;
  for (int i = 0; i < 30; ++i) {
    all.push_back({"f:" + std::to_string(i), "k" + std::to_string(i % 5), std::to_string(i)});
  }
  write(all);
  const Replay some = replay_with("[ $(($1 % 3)) = 0 ] || echo $1 >>" + log());
  for (int round = 0; round < 6; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      setpgid(0, 0);
      _exit(replay(some, {}) ? 0 : 1);
    }
    usleep(static_cast<useconds_t>(10'000 + round * 7'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (access(file.c_str(), F_OK) == 0) continue;
    break;
  }
  run(some);
  EXPECT_TRUE(listed().empty());
  std::set<std::string> handled;
  std::istringstream lines(folder.read("log"));
  for (std::string line; std::getline(lines, line);) handled.insert(line);
  EXPECT_EQ(handled.size(), 20U);
}

}  // namespace
}  // namespace keyway::dead
