#include "dedup/sqlite_handled_ids.h"

#include <utility>

namespace keyway {

using std::chrono::system_clock;

Result<std::unique_ptr<SqliteHandledIds::Connection>> SqliteHandledIds::Connection::open(
    const std::string& path) {
  Result<sqlite::Database> database = sqlite::Database::open(path, {});
  if (!database) return database.error();
  auto connection = std::make_unique<Connection>(std::move(database).value());
  Result<HandledIdTable> table = HandledIdTable::open(connection->database);
  if (!table) return table.error();
  connection->table.emplace(std::move(*table));
  return connection;
}

SqliteHandledIds::SqliteHandledIds(std::unique_ptr<Connection> writer,
                                   std::unique_ptr<Connection> reader, HandledIdsOptions options,
                                   Clock now)
    : options_(options),
      now_(std::move(now)),
      writer_(std::move(writer)),
      commits_([this](std::vector<std::string>& ids) { return store(ids); }),
      reader_(std::move(reader)) {}

Result<std::shared_ptr<SqliteHandledIds>> SqliteHandledIds::open(const std::string& path,
                                                                 HandledIdsOptions options,
                                                                 Clock now) {
  if (options.retention <= Duration::zero()) {
    return Error{ErrorCode::kInvalidArgument, "the retention of handled ids must be above 0"};
  }
  Result<std::unique_ptr<Connection>> writer = Connection::open(path);
  if (!writer) return writer.error();
  Result<std::unique_ptr<Connection>> reader = Connection::open(path);
  if (!reader) return reader.error();
  return std::shared_ptr<SqliteHandledIds>(
      new SqliteHandledIds(std::move(*writer), std::move(*reader), options, std::move(now)));
}

Result<bool> SqliteHandledIds::contains(std::string_view id) {
  MutexLock lock(reader_mutex_);
  return reader_->table->contains(id);
}

Result<void> SqliteHandledIds::store(const std::vector<std::string>& ids) {
  Result<sqlite::Transaction> transaction = sqlite::Transaction::begin(writer_->database);
  if (!transaction) return transaction.error();
  const HandledIdTable::Time now = now_();
  for (const std::string& id : ids) {
    if (Result<void> added = writer_->table->add(id, now); !added) return added;
  }
  Result<void> gone =
      writer_->table->forget_some(now - options_.retention, static_cast<int>(ids.size()));
  if (!gone) return gone;
  return transaction->commit();
}

Result<std::shared_ptr<HandledIds>> sqlite_handled_ids(const std::string& path,
                                                       HandledIdsOptions options) {
  Result<std::shared_ptr<SqliteHandledIds>> made =
      SqliteHandledIds::open(path, options, [] { return system_clock::now(); });
  if (!made) return made.error();
  return std::shared_ptr<HandledIds>(std::move(*made));
}

}  // namespace keyway
