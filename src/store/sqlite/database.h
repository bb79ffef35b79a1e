// SQLite, as far as Keyway needs it: a connection, a prepared statement, a transaction.
//
//   Result<sqlite::Database> database = sqlite::Database::open("nonces.db", {});
//   Result<sqlite::Transaction> transaction = sqlite::Transaction::begin(*database);
//   Result<sqlite::Statement> insert = database->prepare("insert into t values (?)");
//   insert->bind(1, id);
//   Result<bool> row = insert->step();
//   Result<void> stored = transaction->commit();
//
// Errors name the file. kConflict: another connection has held it for too long (retryable), a constraint forbids it, or
// it is no database; kIo: the disk; kInvalidArgument: the statement is wrong.
//
// Thread safety: a connection and all that is of it is one thread's at a time.
// Lifetime: a connection outlives its statements and transactions.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "keyway/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace keyway::sqlite {

struct Options {
  std::chrono::milliseconds busy_wait = std::chrono::seconds(5);
};

class Statement;

class Database {
 public:
  // Makes the file if there is none. WAL, foreign keys; a commit is on the disk when it returns.
  static Result<Database> open(const std::string& path, const Options& options);
  Database(Database&&) noexcept = default;
  Database& operator=(Database&&) noexcept = default;

  Result<Statement> prepare(std::string_view sql);
  // Statements without results, with ; between them.
  Result<void> execute(const char* sql);

  std::int64_t changes() const;  // rows, by the last statement
  sqlite3* native() const { return connection_.get(); }
  const std::string& path() const { return path_; }
  // What `code`, which a call for this connection has returned, means.
  Error error(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  Database(std::string path, sqlite3* connection)
      : path_(std::move(path)), connection_(connection) {}
  Result<void> use_wal(std::chrono::milliseconds busy_wait);

  std::string path_;
  std::unique_ptr<sqlite3, Close> connection_;
};

class Statement {
 public:
  // Parameters count from 1. Texts are copied.
  int parameters() const;
  void bind_null(int parameter);
  void bind(int parameter, std::int64_t value);
  void bind(int parameter, double value);
  void bind_text(int parameter, std::string_view text);
  void bind_blob(int parameter, std::string_view bytes);

  // True: there is a row. After false or an error it can be bound and stepped anew.
  Result<bool> step();
  // Ends it before its last row.
  void reset();

  // Of the row; columns count from 0. Texts live until the next call of step() or reset().
  int columns() const;
  int type(int column) const;  // SQLITE_INTEGER, ...
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string_view bytes(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(const Database& database, sqlite3_stmt* statement)
      : path_(database.path()), statement_(statement) {}

  std::string path_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// Rolled back if it is not committed.
class Transaction {
 public:
  // Takes the place of the one writer at once, so that what is read in it stays true.
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace keyway::sqlite
