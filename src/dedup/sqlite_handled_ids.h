// What sqlite_handled_ids() makes; tests bring their own clock.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/group_commit.h"
#include "base/mutex.h"
#include "dedup/handled_id_table.h"
#include "keyway/sqlite_handled_ids.h"

namespace keyway {

class SqliteHandledIds final : public HandledIds {
 public:
  using Clock = std::function<HandledIdTable::Time()>;
  static Result<std::shared_ptr<SqliteHandledIds>> open(const std::string& path,
                                                        HandledIdsOptions options, Clock now);

  Result<bool> contains(std::string_view id) override;
  Result<void> add(std::string_view id) override { return commits_.add(std::string(id)); }

 private:
  struct Connection {
    static Result<std::unique_ptr<Connection>> open(const std::string& path);
    explicit Connection(sqlite::Database opened) : database(std::move(opened)) {}
    sqlite::Database database;
    std::optional<HandledIdTable> table;
  };

  SqliteHandledIds(std::unique_ptr<Connection> writer, std::unique_ptr<Connection> reader,
                   HandledIdsOptions options, Clock now);
  Result<void> store(const std::vector<std::string>& ids);

  const HandledIdsOptions options_;
  const Clock now_;

  // Of the thread that stores: see GroupCommit.
  std::unique_ptr<Connection> writer_;
  GroupCommit<std::string> commits_;

  // Whoever asks need not wait for those who store.
  Mutex<LockRank::kHandledIdsReader> reader_mutex_;
  std::unique_ptr<Connection> reader_ KEYWAY_GUARDED_BY(reader_mutex_);
};

}  // namespace keyway
