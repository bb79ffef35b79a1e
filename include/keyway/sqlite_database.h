// A SQLite file, for what must be stored together or not at all.
//
//   Result<std::shared_ptr<SqliteDatabase>> database = SqliteDatabase::open("bills.db");
//   Result<bool> stored = (*database)->transact([](SqliteTransaction& transaction) {
//     transaction.execute("insert into bills (customer, cents) values (?, ?)", {"u7", 1250});
//     return true;                                     // false: nothing of it is stored
//   });
//
// Guarantees:
//   (1) When transact() returns true, all that the transaction did is on the disk; in any other case, also if it
//       throws, nothing of it is.
//   (2) Transactions come one at a time, also those of other processes.
//   (3) One that has to wait longer than `busy_wait` for other processes is kConflict, which is retryable.
//
// Thread safety: every method from any thread. A transaction is the thread's own that was given it.
// Lifetime: the database outlives its transactions.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "keyway/error.h"

namespace keyway {

// What SQLite can keep in a column.
class SqliteValue {
 public:
  SqliteValue(std::nullptr_t = nullptr) {}
  template <std::integral Integer>
  SqliteValue(Integer value) : stored_(static_cast<std::int64_t>(value)) {}
  SqliteValue(double value) : stored_(value) {}
  SqliteValue(std::string_view text) : stored_(std::string(text)) {}
  SqliteValue(const std::string& text) : stored_(text) {}
  SqliteValue(const char* text) : stored_(std::string(text)) {}
  template <class T>
  SqliteValue(const std::optional<T>& value) {
    if (value) *this = SqliteValue(*value);
  }
  static SqliteValue blob(std::string_view bytes) {
    SqliteValue value;
    value.stored_ = Blob{std::string(bytes)};
    return value;
  }

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(stored_); }
  // REQUIRES: it is one; of bytes(), a text or a blob.
  std::int64_t integer() const { return std::get<std::int64_t>(stored_); }
  double real() const { return std::get<double>(stored_); }
  const std::string& bytes() const {
    const Blob* const blob = std::get_if<Blob>(&stored_);
    return blob != nullptr ? blob->bytes : std::get<std::string>(stored_);
  }

  struct Blob {
    std::string bytes;
    bool operator==(const Blob&) const = default;
  };
  using Stored = std::variant<std::nullptr_t, std::int64_t, double, std::string, Blob>;
  const Stored& stored() const { return stored_; }
  bool operator==(const SqliteValue&) const = default;

 private:
  Stored stored_ = nullptr;
};

using SqliteRow = std::vector<SqliteValue>;

namespace sqlite {
class Database;
}

// What can be done in a transaction. A failure throws an Exception: a body that lets it pass is rolled back.
class SqliteTransaction {
 public:
  // One statement, with a value for each `?`. How many rows it has changed.
  std::int64_t execute(std::string_view sql, std::initializer_list<SqliteValue> values = {});
  std::vector<SqliteRow> query(std::string_view sql,
                               std::initializer_list<SqliteValue> values = {});

  // The connection, a `sqlite3*`, for all else. Not to be closed, and the transaction not to be ended.
  void* native_handle() const;
  // For Keyway's own stores.
  sqlite::Database& database() const { return database_; }

 private:
  friend class SqliteDatabase;
  explicit SqliteTransaction(sqlite::Database& database) : database_(database) {}
  sqlite::Database& database_;
};

struct SqliteOptions {
  std::chrono::milliseconds busy_wait = std::chrono::seconds(5);
};

class SqliteDatabase {
 public:
  // Opens the file, and makes it if there is none. It is kept in WAL mode.
  static Result<std::shared_ptr<SqliteDatabase>> open(const std::string& path,
                                                      SqliteOptions options = {});
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Calls `body`, and stores what it did if it returns true. What it throws is thrown on. It must not call transact()
  // itself.
  Result<bool> transact(const std::function<bool(SqliteTransaction&)>& body);

 private:
  struct State;
  explicit SqliteDatabase(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace keyway
