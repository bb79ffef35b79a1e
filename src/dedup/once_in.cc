#include "keyway/once_in.h"

#include <atomic>
#include <chrono>
#include <optional>

#include "dedup/handled_id_table.h"

namespace keyway::detail {
namespace {

using std::chrono::system_clock;

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw Exception(result.error());
  return std::move(result).value();
}

void or_throw(const Result<void>& result) {
  if (!result) throw Exception(result.error());
}

}  // namespace

struct Once::State {
  const Source& source;
  const std::shared_ptr<SqliteDatabase> database;
  const HandledIdsOptions options;
  std::atomic<bool> has_table = false;
  // Used in transactions alone: they are one thread's at a time.
  std::optional<HandledIdTable> table;

  // On its own: the table must stay when a handler's transaction is rolled back.
  Result<bool> make_table() {
    return database->transact([](SqliteTransaction& transaction) {
      or_throw(HandledIdTable::open(transaction.database()));
      return true;
    });
  }

  // Is it to be stored?
  bool handle(const Record& record, const std::function<Outcome(SqliteTransaction&)>& handler,
              SqliteTransaction& transaction, Outcome& outcome) {
    if (!table) table.emplace(or_throw(HandledIdTable::open(transaction.database())));
    const std::string id = source.unique_id_of(record);
    if (or_throw(table->contains(id))) return false;
    outcome = handler(transaction);
    if (outcome.kind != Outcome::kDone) return false;
    const auto now = system_clock::now();
    or_throw(table->add(id, now));
    or_throw(table->forget_some(now - options.retention, 1));
    return true;
  }
};

Once::Once(const Source& source, std::shared_ptr<SqliteDatabase> database,
           HandledIdsOptions options)
    : state_(new State{source, std::move(database), options}) {}
Once::~Once() = default;

Outcome Once::call(const Record& record,
                   const std::function<Outcome(SqliteTransaction&)>& handler) {
  if (!state_->has_table) {
    if (const Result<bool> made = state_->make_table(); !made) return retry(made.error().message);
    state_->has_table = true;
  }
  Outcome outcome;
  const Result<bool> stored = state_->database->transact([&](SqliteTransaction& transaction) {
    return state_->handle(record, handler, transaction, outcome);
  });
  return stored ? std::move(outcome) : retry(stored.error().message);
}

}  // namespace keyway::detail
