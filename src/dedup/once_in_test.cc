#include "keyway/once_in.h"

#include <atomic>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "stream/fake_source.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

struct OnceIn : ::testing::Test {
  OnceIn() {
    database = open();
    transact([](SqliteTransaction& transaction) {
      transaction.execute("create table bills (customer)");
      return true;
    });
    for (int i = 0; i < 100; ++i) {
      log.partitions[0].push_back({"u" + std::to_string(i % 7), std::to_string(i)});
    }
  }
  std::shared_ptr<SqliteDatabase> open() const {
    auto opened = SqliteDatabase::open(folder.file("bills.db"));
    EXPECT_TRUE(opened);
    return *opened;
  }
  void transact(const std::function<bool(SqliteTransaction&)>& body) const {
    EXPECT_TRUE(database->transact(body));
  }
  std::int64_t count(const char* sql) const {
    std::int64_t number = 0;
    transact([&](SqliteTransaction& transaction) {
      number = transaction.query(sql)[0][0].integer();
      return false;
    });
    return number;
  }
  std::int64_t bills() const { return count("select count(*) from bills"); }
  std::int64_t different_bills() const {
    return count("select count(distinct customer) from bills");
  }

  template <class Handler>
  PipelineStats run(Handler handler) {
    FakeSource source(log);
    Pipeline pipeline(source, {.concurrency = 4, .retry = {.first = std::chrono::milliseconds(1)}},
                      once_in(source, database, handler));
    const Result<PipelineEnd> end = pipeline.run_until();
    EXPECT_TRUE(end) << end.error().message;
    return pipeline.stats();
  }

  TemporaryFolder folder;
  std::shared_ptr<SqliteDatabase> database;
  FakeLog log;
};

void bill(const Record& record, SqliteTransaction& transaction) {
  transaction.execute("insert into bills values (?)", {record.value});
}

TEST_F(OnceIn, ARecordThatComesAgainIsDoneWithoutACall) {
  run(bill);
  EXPECT_EQ(bills(), 100);
  log.committed.clear();  // as if the run had died before its commit
  std::atomic<int> calls = 0;
  const PipelineStats stats = run([&](const Record& record, SqliteTransaction& transaction) {
    ++calls;
    bill(record, transaction);
  });
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(stats.done, 100U);
  EXPECT_EQ(bills(), 100);
}

TEST_F(OnceIn, WhatIsNotDoneLeavesNothing) {
  std::atomic<int> calls = 0;
  const PipelineStats stats = run(
      [&](const Record& record, const Attempt& attempt, SqliteTransaction& transaction) -> Outcome {
        ++calls;
        bill(record, transaction);
        if (attempt.number == 1) return retry();
        if (attempt.number == 2) throw std::runtime_error("no");
        if (attempt.number == 3) transaction.execute("insert into none values (1)");
        return done();
      });
  EXPECT_EQ(calls, 400);
  EXPECT_EQ(stats.done_after_retry, 100U);
  EXPECT_EQ(bills(), 100);
  EXPECT_EQ(different_bills(), 100);
}

TEST_F(OnceIn, ADatabaseThatIsInUseIsARetry) {
  auto blocker = SqliteDatabase::open(folder.file("bills.db"));
  auto impatient =
      SqliteDatabase::open(folder.file("bills.db"), {.busy_wait = std::chrono::milliseconds(1)});
  FakeSource source(log);
  auto handler = once_in(source, *impatient, bill);
  const Record record{.key = "u1", .value = "1"};
  EXPECT_TRUE((*blocker)->transact([&](SqliteTransaction&) {
    const Outcome outcome = handler(record, Attempt{});
    EXPECT_EQ(outcome.kind, Outcome::kRetry);
    EXPECT_NE(outcome.reason.find("bills.db is in use"), std::string::npos);
    return false;
  }));
  EXPECT_EQ(handler(record, Attempt{}).kind, Outcome::kDone);
  EXPECT_EQ(bills(), 1);
}

// A program that handles all, and is killed at some commit before it can tell its source.
TEST_F(OnceIn, AfterAnyCrashEveryRecordIsBilledOnce) {
  for (int round = 0; round < 12; ++round) {
    database.reset();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      database = open();
      int calls = 0;
      FakeSource source(log);
      auto handler =
          once_in(source, database, [&](const Record& record, SqliteTransaction& transaction) {
            bill(record, transaction);
            if (++calls == 8 && round < 11) kill(getpid(), SIGKILL);
          });
      for (std::size_t i = 0; i < 100; ++i) {
        const FakeLog::Line& line = log.partitions[0][i];
        handler({.offset = static_cast<Offset>(i), .key = line.key, .value = line.value},
                Attempt{});
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WIFSIGNALED(status), round < 11);
    database = open();
    EXPECT_EQ(bills(), round < 11 ? 7 * (round + 1) : 100);
    EXPECT_EQ(different_bills(), bills());
    EXPECT_EQ(count("select count(*) from keyway_handled_ids"), bills());
  }
}

}  // namespace
}  // namespace keyway
