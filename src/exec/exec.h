// `keyway exec`: one command under a limit that holds for all processes of a machine.
//
//   Ending ending = run_exec({.key = "db", .limit = 2, .command = {"pg_dump", "shop"}}, events);
//
// The command begins when it has a slot (see KeySlot) and gives it back when it has ended. Its
// variables KEYWAY_KEY and KEYWAY_SLOT (from 1) say which.
//
// Thread safety: one thread, the program's only one.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/key_slot.h"
#include "exec/slot_folder.h"

namespace keyway::exec {

struct Options {
  std::string key;
  int limit = 1;
  std::optional<std::chrono::milliseconds> wait;  // none: for ever; 0: not at all
  std::chrono::milliseconds timeout{0};           // 0: none
  FolderChoice folder;
  std::vector<std::string> command;
  std::optional<std::chrono::milliseconds> notice_after;  // none: no notice
};

struct Events {
  std::function<void(const Occupancy&)> waiting;
  std::function<void(int slot, std::chrono::nanoseconds waited)> running;
};

struct Ending {
  enum Kind {
    kRan,        // `status` is the command's
    kTimedOut,   // it ran too long
    kNotRun,     // it could not be started; `status` is 126 or 127, `message` says why
    kFull,       // no slot; `occupancy` says who has them
    kSignalled,  // while it waited; `status` is 128 + n
    kFailed,     // keyway itself; `message` says why
  } kind = kRan;
  int status = 0;
  std::string message;
  Occupancy occupancy;
};

Ending run_exec(const Options& options, const Events& events);

}  // namespace keyway::exec
