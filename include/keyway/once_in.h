// A handler whose writes to a SQLite database happen once for each record, also across crashes.
//
//   Pipeline pipeline(source, options, once_in(source, database, [](const Record& record, SqliteTransaction& transaction) {
//     transaction.execute("insert into bills (customer) values (?)", {record.key});
//     return done();
//   }));
//
// The record's id (Source::unique_id_of) is added to the table keyway_handled_ids in the transaction in which the handler
// writes.
//
// Guarantees:
//   (1) The handler's writes and the id are stored together or not at all.
//   (2) A record whose id is there is done, without a call of the handler.
//   (3) An outcome other than done, and anything it throws, leaves nothing of its writes.
// Not guaranteed: anything about what a handler does elsewhere.
//
// Calls come one at a time, whatever the pipeline's concurrency: SQLite has one writer. Slow work that writes nothing is
// better done before, by a handler that calls this one. A database that fails is a retry.
//
// Thread safety: as the handler's, but that it is called by one thread at a time.
// Lifetime: the source outlives it.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "keyway/outcome.h"
#include "keyway/record.h"
#include "keyway/source.h"
#include "keyway/sqlite_database.h"
#include "keyway/sqlite_handled_ids.h"

namespace keyway {

namespace detail {

class Once {
 public:
  Once(const Source& source, std::shared_ptr<SqliteDatabase> database, HandledIdsOptions options);
  ~Once();
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  Outcome call(const Record& record, const std::function<Outcome(SqliteTransaction&)>& handler);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

// `handler` takes a Record and a SqliteTransaction, or a Record, an Attempt and a SqliteTransaction; it returns an
// Outcome, or nothing (done). It is no coroutine: a transaction must not wait.
template <class F>
auto once_in(const Source& source, std::shared_ptr<SqliteDatabase> database, F handler,
             HandledIdsOptions options = {}) {
  auto once = std::make_shared<detail::Once>(source, std::move(database), options);
  return [once = std::move(once), handler = std::move(handler)](const Record& record,
                                                                const Attempt& attempt) mutable {
    return once->call(record, [&](SqliteTransaction& transaction) -> Outcome {
      const auto call = [&] {
        if constexpr (std::is_invocable_v<F&, const Record&, const Attempt&, SqliteTransaction&>) {
          return handler(record, attempt, transaction);
        } else {
          return handler(record, transaction);
        }
      };
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        return done();
      } else {
        return call();
      }
    });
  };
}

}  // namespace keyway
