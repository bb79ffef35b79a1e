// Why an executor rejected a task.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include "keyway/detail/enum_text.h"

namespace keyway {

enum class RejectionReason : unsigned char {
  kQueueFull,        // the group's queue threshold was reached
  kGlobalQueueFull,  // the executor's global queue threshold was reached
  kNoRoomInTime,     // try_submit_for() waited for room until its timeout
  kStopped,          // stop was requested while submit_async() waited for room
  kWaitCycle,        // the wait for room, or for the task whose result it shares, could never have
                     // ended: the tasks wait for each other, or the wait would leave no thread
  kConflated,        // Conflation::kKeepOldest: the group has a task with the same id; or
                     // kShareResult: that task has a value of another type
  kGroupShutdown,    // shutdown_group() ended it while it waited
  kShutdown,         // the executor is shut down
};

const char* to_string(RejectionReason reason);

}  // namespace keyway
