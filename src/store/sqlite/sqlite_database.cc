#include "keyway/sqlite_database.h"

#include <sqlite3.h>

#include "base/mutex.h"
#include "store/sqlite/database.h"

namespace keyway {
namespace {

void bind(sqlite::Statement& statement, int parameter, const SqliteValue& value) {
  const auto bind_one = [&](const auto& stored) {
    using Stored = std::decay_t<decltype(stored)>;
    if constexpr (std::is_same_v<Stored, std::nullptr_t>) {
      statement.bind_null(parameter);
    } else if constexpr (std::is_same_v<Stored, std::string>) {
      statement.bind_text(parameter, stored);
    } else if constexpr (std::is_same_v<Stored, SqliteValue::Blob>) {
      statement.bind_blob(parameter, stored.bytes);
    } else {
      statement.bind(parameter, stored);
    }
  };
  std::visit(bind_one, value.stored());
}

SqliteValue column(const sqlite::Statement& statement, int at) {
  switch (statement.type(at)) {
    case SQLITE_INTEGER:
      return statement.integer(at);
    case SQLITE_FLOAT:
      return statement.real(at);
    case SQLITE_TEXT:
      return statement.bytes(at);
    case SQLITE_BLOB:
      return SqliteValue::blob(statement.bytes(at));
    default:
      return nullptr;
  }
}

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw Exception(result.error());
  return std::move(result).value();
}

sqlite::Statement prepare(sqlite::Database& database, std::string_view sql,
                          std::initializer_list<SqliteValue> values) {
  sqlite::Statement statement = or_throw(database.prepare(sql));
  if (statement.parameters() != static_cast<int>(values.size())) {
    throw Exception(
        {ErrorCode::kInvalidArgument, database.path() + ": " + std::to_string(values.size()) +
                                          " values for " + std::to_string(statement.parameters()) +
                                          " parameters of: " + std::string(sql)});
  }
  int parameter = 0;
  for (const SqliteValue& value : values) bind(statement, ++parameter, value);
  return statement;
}

}  // namespace

std::int64_t SqliteTransaction::execute(std::string_view sql,
                                        std::initializer_list<SqliteValue> values) {
  sqlite::Statement statement = prepare(database_, sql, values);
  while (or_throw(statement.step())) {
  }
  return database_.changes();
}

std::vector<SqliteRow> SqliteTransaction::query(std::string_view sql,
                                                std::initializer_list<SqliteValue> values) {
  sqlite::Statement statement = prepare(database_, sql, values);
  std::vector<SqliteRow> rows;
  while (or_throw(statement.step())) {
    SqliteRow& row = rows.emplace_back();
    for (int at = 0; at < statement.columns(); ++at) row.push_back(column(statement, at));
  }
  return rows;
}

void* SqliteTransaction::native_handle() const { return database_.native(); }

struct SqliteDatabase::State {
  explicit State(sqlite::Database opened) : database(std::move(opened)) {}

  Mutex<LockRank::kDatabase> mutex;
  sqlite::Database database KEYWAY_GUARDED_BY(mutex);
};

SqliteDatabase::SqliteDatabase(std::unique_ptr<State> state) : state_(std::move(state)) {}
SqliteDatabase::~SqliteDatabase() = default;

Result<std::shared_ptr<SqliteDatabase>> SqliteDatabase::open(const std::string& path,
                                                             SqliteOptions options) {
  Result<sqlite::Database> opened = sqlite::Database::open(path, {.busy_wait = options.busy_wait});
  if (!opened) return opened.error();
  auto state = std::make_unique<State>(std::move(opened).value());
  return std::shared_ptr<SqliteDatabase>(new SqliteDatabase(std::move(state)));
}

// The connection is one thread's at a time, so the body runs under its lock: that is what a transaction is.
Result<bool> SqliteDatabase::transact(const std::function<bool(SqliteTransaction&)>& body) {
  MutexLock lock(state_->mutex);
  Result<sqlite::Transaction> begun = sqlite::Transaction::begin(state_->database);
  if (!begun) return begun.error();
  SqliteTransaction transaction(state_->database);
  if (!body(transaction)) return false;
  if (const Result<void> committed = begun->commit(); !committed) return committed.error();
  return true;
}

}  // namespace keyway
