// Handled ids in a SQLite file: the deduplication table of a pipeline on one machine.
//
//   Result<std::shared_ptr<HandledIds>> ids = sqlite_handled_ids("handled.db");
//   Pipeline pipeline(source, {.handled_ids = *ids}, handler);
//
// Guarantees:
//   (1) When add() returns, the id is on the disk. Threads that add at once share one wait for it.
//   (2) An id is known for `retention` at least. Older ones go a few at a time, with later adds: no add waits long.
//   (3) Several processes may share the file; one that has to wait longer than 5 s for the others gets kConflict,
//       which is retryable.
// The table is keyway_handled_ids; a database that has others too is as good.
// A handler that writes to the same database need not be called twice even after a crash: see once_in.h.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <chrono>
#include <memory>
#include <string>

#include "keyway/error.h"
#include "keyway/handled_ids.h"
#include "keyway/scheduler.h"

namespace keyway {

struct HandledIdsOptions {
  Duration retention = std::chrono::hours(30 * 24);
};

// Opens the file, and makes it if there is none.
Result<std::shared_ptr<HandledIds>> sqlite_handled_ids(const std::string& path,
                                                       HandledIdsOptions options = {});

}  // namespace keyway
