// One try of one job or record, as the joblog, the report and the summary know it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace keyway {

enum class AttemptOutcome {
  kOk,         // exit 0
  kRetry,      // failed, and will be tried again
  kFailed,     // failed, and will not be tried again
  kTimedOut,   // was ended because its time was over, and will not be tried again
  kCancelled,  // never began, or was ended, because the run was halted or stopped
};

struct LoggedAttempt {
  using Time = std::chrono::system_clock::time_point;

  std::string id;
  std::uint64_t seq = 0;  // which job of the input it is, from 1
  std::string key;        // what is kept in order; for a batch, the group
  std::string group;      // which limit it is under
  int slot = 0;           // which of the --jobs places it had, from 1; 0: none
  int attempt = 1;        // which try it is, from 1
  Time queued{};          // when it could first have run, had there been no limit
  Time start{};
  Time end{};
  int exit = 0;          // its exit status; meaningless if a signal ended it
  bool has_exit = true;  // false: a worker or a server failed, which has none
  int signal = 0;        // 0: none
  AttemptOutcome outcome = AttemptOutcome::kOk;
  bool final = true;  // no other try follows
  // The end of what it wrote to stderr, if it was not ok; not in the joblog.
  std::string error_output;
};

}  // namespace keyway
