#include "dedup/handled_id_table.h"

namespace keyway {
namespace {

std::int64_t stored_time(HandledIdTable::Time time) {
  return std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
}

Result<void> run(sqlite::Statement& statement) {
  const Result<bool> row = statement.step();
  if (!row) return row.error();
  return {};
}

}  // namespace

Result<HandledIdTable> HandledIdTable::open(sqlite::Database& database) {
  // A file that only asks is not to be written.
  Result<sqlite::Statement> there =
      database.prepare("select 1 from sqlite_schema where name = 'keyway_handled_ids_by_time'");
  if (!there) return there.error();
  const Result<bool> found = there->step();
  if (!found) return found.error();
  there->reset();
  if (!*found) {
    const Result<void> made = database.execute(
        "create table if not exists keyway_handled_ids"
        " (id blob primary key, at integer not null) without rowid;"
        "create index if not exists keyway_handled_ids_by_time on keyway_handled_ids (at)");
    if (!made) return made.error();
  }
  Result<sqlite::Statement> find =
      database.prepare("select 1 from keyway_handled_ids where id = ?");
  if (!find) return find.error();
  Result<sqlite::Statement> insert = database.prepare(
      "insert into keyway_handled_ids (id, at) values (?, ?)"
      " on conflict (id) do update set at = excluded.at");
  if (!insert) return insert.error();
  Result<sqlite::Statement> remove = database.prepare(
      "delete from keyway_handled_ids where id in"
      " (select id from keyway_handled_ids where at < ? order by at limit ?)");
  if (!remove) return remove.error();
  return HandledIdTable(std::move(*find), std::move(*insert), std::move(*remove));
}

Result<bool> HandledIdTable::contains(std::string_view id) {
  find_.bind_blob(1, id);
  Result<bool> found = find_.step();
  find_.reset();  // it would go on reading, and keep what it reads from being forgotten
  return found;
}

Result<void> HandledIdTable::add(std::string_view id, Time now) {
  insert_.bind_blob(1, id);
  insert_.bind(2, stored_time(now));
  return run(insert_);
}

Result<void> HandledIdTable::forget_some(Time oldest, int added) {
  added_ += added;
  if (added_ < kAddsPerStep) return {};
  remove_.bind(1, stored_time(oldest));
  remove_.bind(2, std::int64_t{2} * added_);
  added_ = 0;
  return run(remove_);
}

}  // namespace keyway
