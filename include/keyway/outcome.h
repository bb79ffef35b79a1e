// What became of a record: see Pipeline.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <optional>
#include <string>
#include <utility>

#include "keyway/error.h"
#include "keyway/scheduler.h"

namespace keyway {

struct Outcome {
  enum Kind { kDone, kRetry, kFailed } kind = kDone;
  // Why the record is not done. Empty: the dead letter says that the handler asked for a retry, or gave
  // up on the record.
  std::string reason{};
  std::optional<Duration> delay{};  // kRetry: instead of the backoff
  // Of a handler that is a program, if it is not done: for the dead letter.
  std::optional<int> exit{};
  std::string stderr_tail{};
};

// Handled.
inline Outcome done() { return {}; }
// Not now; once more after a while, as long as attempts are left.
inline Outcome retry(std::string reason = {}, std::optional<Duration> delay = {}) {
  return {.kind = Outcome::kRetry, .reason = std::move(reason), .delay = delay};
}
// Never: it becomes a dead letter at once.
inline Outcome permanent_failure(std::string reason) {
  return {.kind = Outcome::kFailed, .reason = std::move(reason)};
}

// A handler that throws this gives up at once; anything else that it throws is a retry.
class PermanentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace keyway
