// A store of ids of what was handled, for handlers that are not idempotent: the deduplication table.
//
// A Pipeline asks for a record's id before it is handled, and adds it before the record is done. What was handled and
// not yet added when the program died is handled again; a handler that writes to the same database can do both in one
// transaction: see sqlite_handled_ids.h.
//
// Thread safety: every method from any thread.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <string_view>

#include "keyway/error.h"

namespace keyway {

class HandledIds {
 public:
  virtual ~HandledIds() = default;
  virtual Result<bool> contains(std::string_view id) = 0;
  // When it returns, the id is stored for good.
  virtual Result<void> add(std::string_view id) = 0;
};

}  // namespace keyway
