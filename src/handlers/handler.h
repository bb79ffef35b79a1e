// Who handles a record for `keyway run`: a process for each, a long-lived worker, or a server.
//
// handle() is one attempt. It takes as long as it takes and holds no thread; it never throws, and says in its outcome
// what is to become of the record. A timeout is the handler's own: it ends what it started, and that is a retry.
//
// Thread safety: the scheduler's thread alone.
// Lifetime: destroyed after all its attempts have ended; ends then what it still has running.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "keyway/error.h"
#include "keyway/outcome.h"
#include "keyway/record.h"
#include "keyway/task.h"
#include "process/captured_output.h"

namespace keyway::run {

// All of it is there until the attempt has ended.
struct Call {
  const Record* record = nullptr;
  Attempt attempt;
  std::string_view id;         // Source::id_of()
  std::string_view unique_id;  // Source::unique_id_of()
  std::string_view key;        // empty: none
  std::string_view group;
  std::string_view source;  // its name
  int slot = 0;             // which of the --jobs places it has, from 1
};

struct Handled {
  Outcome outcome;  // with exit and stderr_tail
  int signal = 0;   // that ended the process; 0: none
  bool timed_out = false;
  CapturedOutput output;  // to be printed on stdout if it is done
  CapturedOutput errors;  // to be printed on stderr
};

class Handler {
 public:
  virtual ~Handler() = default;

  virtual Task<Handled> handle(Call call) = 0;

  // No record comes any more: workers may finish and exit.
  virtual void no_more() {}
  // After no_more() or end(): waits until nothing of it runs any more. Once.
  virtual Task<> finished() { co_return; }
  // Ends what runs: SIGTERM to it; then its attempts end soon. SIGKILL: at once.
  virtual void end(int signal) = 0;
  // One line for each attempt that runs, without a newline at the end of the last: for SIGUSR1.
  virtual std::string describe_running() const = 0;

  // Called once when it can handle nothing any more, and every attempt would fail: the run ends.
  std::function<void(Error)> on_failure;
};

}  // namespace keyway::run
