#include "store/sqlite/database.h"

#include <array>
#include <csignal>
#include <cstdlib>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/own_process.h"
#include "support/temporary_folder.h"

namespace keyway::sqlite {
namespace {

std::int64_t number(Database& database, const char* sql) {
  Result<Statement> statement = database.prepare(sql);
  EXPECT_TRUE(statement);
  const Result<bool> row = statement->step();
  EXPECT_TRUE(row && *row);
  return statement->integer(0);
}

struct Fixture : ::testing::Test {
  Database open() {
    Result<Database> opened = Database::open(file, {});
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(opened).value();
  }

  TemporaryFolder folder;
  const std::string file = folder.file("test.db");
};

using SqliteLayer = Fixture;

TEST_F(SqliteLayer, ACommitIsOnTheDiskAndReadersDoNotWait) {
  Database database = open();
  Result<Statement> mode = database.prepare("pragma journal_mode");
  EXPECT_TRUE(*mode->step());
  EXPECT_EQ(mode->bytes(0), "wal");
  EXPECT_EQ(number(database, "pragma synchronous"), 2);
  EXPECT_EQ(number(database, "pragma foreign_keys"), 1);
}

TEST_F(SqliteLayer, ValuesComeBackAsTheyWere) {
  Database database = open();
  ASSERT_TRUE(database.execute("create table t (a, b, c, d, e)"));
  Result<Statement> insert = database.prepare("insert into t values (?, ?, ?, ?, ?)");
  EXPECT_EQ(insert->parameters(), 5);
  insert->bind(1, std::int64_t{-7});
  insert->bind(2, 0.5);
  insert->bind_text(3, std::string_view("a\0b", 3));
  insert->bind_blob(4, {});
  insert->bind_null(5);
  EXPECT_FALSE(*insert->step());
  EXPECT_EQ(database.changes(), 1);
  Result<Statement> select = database.prepare("select *, typeof(d), typeof(e) from t");
  ASSERT_TRUE(*select->step());
  EXPECT_EQ(select->columns(), 7);
  EXPECT_EQ(select->integer(0), -7);
  EXPECT_EQ(select->real(1), 0.5);
  EXPECT_EQ(select->bytes(2), std::string_view("a\0b", 3));
  EXPECT_EQ(select->bytes(3), "");
  EXPECT_EQ(select->bytes(5), "blob");
  EXPECT_EQ(select->bytes(6), "null");
  EXPECT_FALSE(*select->step());
  EXPECT_TRUE(*select->step());  // once more
}

TEST_F(SqliteLayer, WhatIsNotCommittedIsRolledBack) {
  Database database = open();
  ASSERT_TRUE(database.execute("create table t (a)"));
  {
    Result<Transaction> transaction = Transaction::begin(database);
    ASSERT_TRUE(database.execute("insert into t values (1)"));
  }
  EXPECT_EQ(number(database, "select count(*) from t"), 0);
  {
    Result<Transaction> transaction = Transaction::begin(database);
    ASSERT_TRUE(database.execute("insert into t values (1)"));
    ASSERT_TRUE(transaction->commit());
  }
  EXPECT_EQ(number(database, "select count(*) from t"), 1);
}

TEST_F(SqliteLayer, AWriterThatFindsAnotherOneWaitsAndThenSaysSo) {
  Database first = open();
  Result<Database> second = Database::open(file, {.busy_wait = std::chrono::milliseconds(20)});
  Result<Transaction> held = Transaction::begin(first);
  ASSERT_TRUE(held);
  const Result<Transaction> refused = Transaction::begin(*second);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_TRUE(refused.error().retryable);
  EXPECT_NE(refused.error().message.find(file + " is in use"), std::string::npos);
  ASSERT_TRUE(held->commit());
  EXPECT_TRUE(Transaction::begin(*second));
}

TEST_F(SqliteLayer, ErrorsNameTheFileAndWhatIsWrong) {
  const Result<Database> nowhere = Database::open(folder.file("none/test.db"), {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
  EXPECT_NE(nowhere.error().message.find("none/test.db"), std::string::npos);

  folder.write("text.db", std::string(5000, 'x'));
  const Result<Database> no_database = Database::open(folder.file("text.db"), {});
  ASSERT_FALSE(no_database);
  EXPECT_EQ(no_database.error().code, ErrorCode::kConflict);
  EXPECT_FALSE(no_database.error().retryable);

  Database database = open();
  EXPECT_EQ(database.execute("selec 1").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(database.prepare("select * from none").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(database.prepare("select 1; select 2").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(database.prepare("").error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(database.prepare("select 1;  "));
  ASSERT_TRUE(database.execute("create table t (a unique); insert into t values (1)"));
  EXPECT_EQ(database.execute("insert into t values (1)").error().code, ErrorCode::kConflict);
}

TEST_F(SqliteLayer, WithoutRoomNothingIsStoredAndLaterItIs) {
  const auto body = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    Database database = open();
    ASSERT_TRUE(database.execute("create table t (a)"));
    rlimit limit{100'000, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    {
      Result<Transaction> transaction = Transaction::begin(database);
      ASSERT_TRUE(transaction);
      Result<void> stored = database.execute("insert into t values (randomblob(1000000))");
      if (stored) stored = transaction->commit();
      ASSERT_FALSE(stored);
      EXPECT_EQ(stored.error().code, ErrorCode::kIo);
      EXPECT_NE(stored.error().message.find(file), std::string::npos);
    }
    EXPECT_EQ(number(database, "select count(*) from t"), 0);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    ASSERT_TRUE(database.execute("insert into t values (1)"));
    EXPECT_EQ(number(database, "select count(*) from t"), 1);
  };
  expect_ends(body);
}

TEST_F(SqliteLayer, ProcessesThatOpenANewFileAtOnceAllGetIt) {
  for (int round = 0; round < 10; ++round) {
    const std::string fresh = folder.file("fresh" + std::to_string(round) + ".db");
    std::array<int, 2> gate{};
    ASSERT_EQ(pipe(gate.data()), 0);
    std::array<pid_t, 4> children{};
    for (pid_t& child : children) {
      child = fork();
      if (child != 0) continue;
      char ignored = 0;
      close(gate[1]);
      (void)!read(gate[0], &ignored, 1);  // until the parent opens it
      Result<Database> database = Database::open(fresh, {});
      if (!database) _exit(1);
      for (int i = 0; i < 5; ++i) {
        if (!database->execute("create table if not exists t (a); insert into t values (1)")) {
          _exit(2);
        }
      }
      _exit(0);
    }
    close(gate[0]);
    close(gate[1]);
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    Result<Database> database = Database::open(fresh, {});
    EXPECT_EQ(number(*database, "select count(*) from t"), 20);
  }
}

}  // namespace
}  // namespace keyway::sqlite
