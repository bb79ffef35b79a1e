// Runs a command as if it had been typed: in the caller's process group, with its terminal, and
// waits for its end.
//
//   CommandEnd end = run_in_foreground({.argv = words, .environment = variables, .timeout = 5min});
//
// Guarantees:
//   (1) Ctrl-C and the like reach the command from the terminal and leave the caller alone. SIGINT,
//       SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 that a process sends to the caller are passed
//       on.
//   (2) What the caller ignores, the command ignores.
//   (3) After `timeout` it gets SIGTERM, and SIGKILL `kill_after` later; it alone, not what it
//       started.
//   (4) It is killed if the caller is, except a set-user-ID program.
//
// Thread safety: one thread; the program has no other that could take the signals. They stay
// blocked, so that none can come between the command's end and what is done about it.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "process/child.h"

namespace keyway::exec {

struct ForegroundCommand {
  std::span<const std::string> argv;         // not empty
  std::span<const char* const> environment;  // "NAME=value"
  int inherited = -1;                        // a descriptor that stays open in it
  std::chrono::milliseconds timeout{0};      // 0: none
  std::chrono::milliseconds kill_after{5000};
  int* pid_record = nullptr;  // its id is stored here, in shared memory, before its program runs
};

struct CommandEnd {
  int status = 0;  // as a shell has it: 128 + n if a signal ended it
  bool timed_out = false;
  std::string failure;  // not empty: it was not started; `status` is 125, 126 or 127
};

CommandEnd run_in_foreground(const ForegroundCommand& command);

}  // namespace keyway::exec
