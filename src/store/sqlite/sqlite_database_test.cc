#include "keyway/sqlite_database.h"

#include <thread>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway {
namespace {

struct SqliteDatabaseTest : ::testing::Test {
  SqliteDatabaseTest() {
    Result<std::shared_ptr<SqliteDatabase>> opened = SqliteDatabase::open(folder.file("test.db"));
    EXPECT_TRUE(opened);
    database = *opened;
    transact([](SqliteTransaction& transaction) {
      transaction.execute("create table t (a, b)");
      return true;
    });
  }
  bool transact(const std::function<bool(SqliteTransaction&)>& body) const {
    const Result<bool> stored = database->transact(body);
    EXPECT_TRUE(stored);
    return stored && *stored;
  }
  std::vector<SqliteRow> rows() const {
    std::vector<SqliteRow> found;
    transact([&](SqliteTransaction& transaction) {
      found = transaction.query("select a, b from t order by rowid");
      return false;
    });
    return found;
  }

  TemporaryFolder folder;
  std::shared_ptr<SqliteDatabase> database;
};

TEST_F(SqliteDatabaseTest, ValuesOfEveryKindComeBack) {
  const std::optional<std::string_view> none;
  const bool stored = transact([&](SqliteTransaction& transaction) {
    EXPECT_EQ(transaction.execute("insert into t values (?, ?)", {"text", 17}), 1);
    transaction.execute("insert into t values (?, ?)", {0.5, none});
    transaction.execute("insert into t values (?, ?)",
                        {SqliteValue::blob(std::string_view("\0x", 2)), nullptr});
    EXPECT_EQ(transaction.execute("update t set b = 1 where b is null"), 2);
    return true;
  });
  EXPECT_TRUE(stored);
  const std::vector<SqliteRow> found = rows();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0], (SqliteRow{"text", 17}));
  EXPECT_EQ(found[1], (SqliteRow{0.5, 1}));
  EXPECT_EQ(found[2][0].bytes(), std::string_view("\0x", 2));
  EXPECT_EQ(found[2][1].integer(), 1);
}

TEST_F(SqliteDatabaseTest, ABodyThatSaysNoOrThrowsLeavesNothing) {
  EXPECT_FALSE(transact([](SqliteTransaction& transaction) {
    transaction.execute("insert into t values (1, 1)");
    return false;
  }));
  const auto throws = [](SqliteTransaction& transaction) -> bool {
    transaction.execute("insert into t values (1, 1)");
    throw std::runtime_error("no");
  };
  EXPECT_THROW((void)database->transact(throws), std::runtime_error);
  const auto wrong = [](SqliteTransaction& transaction) {
    transaction.execute("insert into t values (1, 1)");
    transaction.execute("insert into none values (1, 1)");
    return true;
  };
  EXPECT_THROW((void)database->transact(wrong), Exception);
  EXPECT_TRUE(rows().empty());
}

TEST_F(SqliteDatabaseTest, TooManyOrTooFewValuesAreRefused) {
  for (const char* sql : {"insert into t values (?, ?)", "insert into t values (1, 1)"}) {
    const auto wrong = [&](SqliteTransaction& transaction) {
      transaction.execute(sql, {1});
      return true;
    };
    EXPECT_THROW((void)database->transact(wrong), Exception);
  }
}

TEST_F(SqliteDatabaseTest, TransactionsComeOneAtATime) {
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          transact([](SqliteTransaction& transaction) {
            const std::int64_t last =
                transaction.query("select coalesce(max(a), 0) from t")[0][0].integer();
            transaction.execute("insert into t values (?, 0)", {last + 1});
            return true;
          });
        }
      });
    }
  }
  const std::vector<SqliteRow> found = rows();
  ASSERT_EQ(found.size(), 200U);
  EXPECT_EQ(found.back()[0].integer(), 200);
}

}  // namespace
}  // namespace keyway
