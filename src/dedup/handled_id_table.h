// The table of handled ids, within a transaction of whoever has one.
//
//   create table keyway_handled_ids (id blob primary key, at integer)      -- milliseconds since 1970
//
// Thread safety: that of the connection.
#pragma once

#include <chrono>
#include <string_view>
#include <utility>

#include "keyway/error.h"
#include "store/sqlite/database.h"

namespace keyway {

class HandledIdTable {
 public:
  using Time = std::chrono::system_clock::time_point;
  static constexpr int kAddsPerStep = 32;

  // Makes the table if there is none.
  static Result<HandledIdTable> open(sqlite::Database& database);

  Result<bool> contains(std::string_view id);
  // An id that is there already counts from now on.
  Result<void> add(std::string_view id, Time now);
  // Of those that were added before `oldest` some are removed: every so often, and then at most twice as many as have
  // been added since the last time. So they become fewer, and nobody waits long.
  Result<void> forget_some(Time oldest, int added);

 private:
  HandledIdTable(sqlite::Statement find, sqlite::Statement insert, sqlite::Statement remove)
      : find_(std::move(find)), insert_(std::move(insert)), remove_(std::move(remove)) {}

  sqlite::Statement find_;
  sqlite::Statement insert_;
  sqlite::Statement remove_;
  int added_ = 0;
};

}  // namespace keyway
