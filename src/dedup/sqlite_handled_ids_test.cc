#include "dedup/sqlite_handled_ids.h"

#include <array>
#include <csignal>
#include <set>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/sqlite_database.h"
#include "support/own_process.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

struct SqliteHandledIdsTest : ::testing::Test {
  std::shared_ptr<SqliteHandledIds> open(HandledIdsOptions options = {}) {
    auto opened = SqliteHandledIds::open(file, options, [this] { return now; });
    EXPECT_TRUE(opened) << opened.error().message;
    return *opened;
  }
  std::int64_t count() const {
    std::int64_t rows = 0;
    auto database = SqliteDatabase::open(file);
    EXPECT_TRUE((*database)->transact([&](SqliteTransaction& transaction) {
      rows = transaction.query("select count(*) from keyway_handled_ids")[0][0].integer();
      return false;
    }));
    return rows;
  }

  TemporaryFolder folder;
  const std::string file = folder.file("ids.db");
  HandledIdTable::Time now = std::chrono::system_clock::now();
};

bool has(HandledIds& ids, std::string_view id) {
  const Result<bool> found = ids.contains(id);
  EXPECT_TRUE(found);
  return found && *found;
}

TEST_F(SqliteHandledIdsTest, AnIdIsKnownOnceItWasAdded) {
  const auto ids = open();
  EXPECT_FALSE(has(*ids, "a"));
  ASSERT_TRUE(ids->add("a"));
  EXPECT_TRUE(has(*ids, "a"));
  EXPECT_FALSE(has(*ids, "A"));
  ASSERT_TRUE(ids->add("a"));
  ASSERT_TRUE(ids->add(std::string_view("a\0", 2)));
  ASSERT_TRUE(ids->add(""));
  EXPECT_TRUE(has(*ids, ""));
  EXPECT_EQ(count(), 3);
}

TEST_F(SqliteHandledIdsTest, IdsAreKnownAfterARestart) {
  ASSERT_TRUE(open()->add("a"));
  EXPECT_TRUE(has(*open(), "a"));
}

TEST_F(SqliteHandledIdsTest, ThoseOfAnEarlierTimeGoInSmallSteps) {
  const auto ids = open({.retention = 24h});
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(ids->add("old" + std::to_string(i)));
  now += 12h;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ids->add("middle" + std::to_string(i)));
  EXPECT_EQ(count(), 600);  // none is older than a day
  now += 13h;
  std::int64_t before = count();
  for (int i = 0; i < 600; ++i) {
    ASSERT_TRUE(ids->add("new" + std::to_string(i)));
    if (i % 16 != 0) continue;
    const std::int64_t after = count();
    EXPECT_GE(after, before - 64) << i;
    before = after;
  }
  EXPECT_EQ(count(), 700);
  EXPECT_FALSE(has(*ids, "old7"));
  EXPECT_TRUE(has(*ids, "middle7"));
}

TEST_F(SqliteHandledIdsTest, AnIdThatIsAddedAgainIsKeptAnew) {
  const auto ids = open({.retention = 24h});
  ASSERT_TRUE(ids->add("a"));
  now += 23h;
  ASSERT_TRUE(ids->add("a"));
  now += 23h;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ids->add("new" + std::to_string(i)));
  EXPECT_TRUE(has(*ids, "a"));
}

TEST_F(SqliteHandledIdsTest, ARetentionOfNothingIsRefused) {
  const auto made = sqlite_handled_ids(file, {.retention = 0s});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(SqliteHandledIdsTest, AFileThatIsNoDatabaseIsRefused) {
  folder.write("ids.db", std::string(5000, 'x'));
  const auto made = sqlite_handled_ids(file);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kConflict);
  EXPECT_NE(made.error().message.find(file), std::string::npos);
}

TEST_F(SqliteHandledIdsTest, ManyThreadsAddAndAsk) {
  const auto ids = open();
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 100; ++i) {
          const std::string id = std::to_string(thread) + ":" + std::to_string(i);
          EXPECT_FALSE(has(*ids, id));
          EXPECT_TRUE(ids->add(id));
          EXPECT_TRUE(has(*ids, id));
        }
      });
    }
  }
  EXPECT_EQ(count(), 800);
}

TEST_F(SqliteHandledIdsTest, WithoutRoomAddFailsAndLaterItDoesNot) {
  const auto body = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const auto ids = open();
    ASSERT_TRUE(ids->add("a"));
    rlimit limit{40'000, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    Result<void> added;
    for (int i = 0; added && i < 1000; ++i) added = ids->add("b" + std::to_string(i));
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, ErrorCode::kIo);
    EXPECT_TRUE(has(*ids, "a"));
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    ASSERT_TRUE(ids->add("c"));
    EXPECT_TRUE(has(*ids, "c"));
  };
  expect_ends(body);
}

// Two processes add at once, and are killed in the middle of it.
TEST_F(SqliteHandledIdsTest, ProcessesShareAFileAndWhatWasAddedOutlivesTheirDeath) {
  std::set<std::string> added;
  for (int round = 0; round < 10; ++round) {
    std::array<int, 2> said{};
    ASSERT_EQ(pipe(said.data()), 0);
    std::array<pid_t, 2> children{};
    for (int which = 0; which < 2; ++which) {
      const pid_t child = fork();
      children[static_cast<std::size_t>(which)] = child;
      if (child != 0) continue;
      const auto ids = sqlite_handled_ids(file);
      if (!ids) _exit(1);
      for (int i = 0;; ++i) {
        const std::array<int, 2> done{which, i};
        const std::string id =
            std::to_string(round) + ":" + std::to_string(which) + ":" + std::to_string(i);
        if (!(*ids)->add(id)) _exit(2);
        if (write(said[1], done.data(), sizeof(done)) != sizeof(done)) _exit(3);
      }
    }
    close(said[1]);
    std::array<int, 2> done{};
    for (int lines = 0; read(said[0], done.data(), sizeof(done)) == sizeof(done);) {
      added.insert(std::to_string(round) + ":" + std::to_string(done[0]) + ":" +
                   std::to_string(done[1]));
      if (++lines == 10 + round * 3) {
        for (const pid_t child : children) kill(child, SIGKILL);
      }
    }
    close(said[0]);
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
    }
  }
  const auto ids = open();
  for (const std::string& id : added) EXPECT_TRUE(has(*ids, id)) << id;
  EXPECT_LE(count(), static_cast<std::int64_t>(added.size()) + 20);
}

}  // namespace
}  // namespace keyway
