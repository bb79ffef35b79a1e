#include "store/sqlite/database.h"

#include <thread>
#include <utility>

#include <sqlite3.h>

namespace keyway::sqlite {
namespace {

Error error_of(const std::string& path, sqlite3* connection, int code) {
  const std::string what =
      connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kConflict, path + " is in use by another writer, for too long",
              /*retryable=*/true};
    case SQLITE_CONSTRAINT:
      return {ErrorCode::kConflict, path + ": " + what};
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return {ErrorCode::kConflict,
              path + ": " + what + "\n  try: another file, or put this one back from a copy"};
    case SQLITE_ERROR:
    case SQLITE_RANGE:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_MISUSE:
      return {ErrorCode::kInvalidArgument, path + ": " + what};
    case SQLITE_CANTOPEN:
      return {ErrorCode::kIo, "cannot open " + path + ": " + what, /*retryable=*/true};
    default:
      return {ErrorCode::kIo, "cannot read or write " + path + ": " + what, /*retryable=*/true};
  }
}

}  // namespace

void Database::Close::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Result<Database> Database::open(const std::string& path, const Options& options) {
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &opened,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(path, opened);
  if (code != SQLITE_OK) return error_of(path, opened, code);
  sqlite3_extended_result_codes(opened, 1);
  sqlite3_busy_timeout(opened, static_cast<int>(options.busy_wait.count()));
  if (const Result<void> set = database.use_wal(options.busy_wait); !set) return set.error();
  // In WAL mode FULL waits for the disk with each commit, which NORMAL does not.
  const Result<void> set = database.execute("pragma synchronous = full; pragma foreign_keys = on");
  if (!set) return set.error();
  return database;
}

// Where two change the mode of a new file at once, SQLite refuses one of them without waiting.
Result<void> Database::use_wal(std::chrono::milliseconds busy_wait) {
  const auto end = std::chrono::steady_clock::now() + busy_wait;
  while (true) {
    Result<void> set = execute("pragma journal_mode = wal");
    const bool may_wait = !set && set.error().retryable && set.error().code == ErrorCode::kConflict;
    if (!may_wait || std::chrono::steady_clock::now() >= end) return set;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const char* rest = nullptr;
  const int code =
      sqlite3_prepare_v2(native(), sql.data(), static_cast<int>(sql.size()), &statement, &rest);
  if (code != SQLITE_OK) return error(code);
  Statement prepared(*this, statement);
  const std::string_view after = sql.substr(static_cast<std::size_t>(rest - sql.data()));
  if (statement == nullptr || after.find_first_not_of(" \t\r\n;") != std::string_view::npos) {
    return Error{ErrorCode::kInvalidArgument, path_ + ": not one statement: " + std::string(sql)};
  }
  return prepared;
}

Result<void> Database::execute(const char* sql) {
  const int code = sqlite3_exec(native(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return {};
}

std::int64_t Database::changes() const { return sqlite3_changes64(native()); }

Error Database::error(int code) const { return error_of(path_, native(), code); }

int Statement::parameters() const { return sqlite3_bind_parameter_count(statement_.get()); }
void Statement::bind_null(int parameter) { sqlite3_bind_null(statement_.get(), parameter); }

void Statement::bind(int parameter, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
}

void Statement::bind(int parameter, double value) {
  sqlite3_bind_double(statement_.get(), parameter, value);
}

void Statement::bind_text(int parameter, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), parameter, text.data() != nullptr ? text.data() : "",
                      text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

void Statement::bind_blob(int parameter, std::string_view bytes) {
  // Without an address it would be null.
  sqlite3_bind_blob64(statement_.get(), parameter, bytes.data() != nullptr ? bytes.data() : "",
                      bytes.size(), SQLITE_TRANSIENT);
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  Error error = error_of(path_, sqlite3_db_handle(statement_.get()), code);
  reset();
  return error;
}

void Statement::reset() { sqlite3_reset(statement_.get()); }

int Statement::columns() const { return sqlite3_column_count(statement_.get()); }
int Statement::type(int column) const { return sqlite3_column_type(statement_.get(), column); }

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }

std::string_view Statement::bytes(int column) const {
  const void* const bytes = sqlite3_column_blob(statement_.get(), column);
  return {static_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Result<Transaction> Transaction::begin(Database& database) {
  if (const Result<void> begun = database.execute("begin immediate"); !begun) return begun.error();
  return Transaction(database);
}

Transaction::~Transaction() {
  // Some failures have rolled it back already.
  if (database_ != nullptr && sqlite3_get_autocommit(database_->native()) == 0) {
    (void)database_->execute("rollback");
  }
}

Result<void> Transaction::commit() {
  Result<void> committed = database_->execute("commit");
  if (committed) database_ = nullptr;
  return committed;
}

}  // namespace keyway::sqlite
