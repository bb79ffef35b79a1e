// How a SerialDispatcher works, and what it says of itself.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstdint>

#include "keyway/error.h"
#include "keyway/explanation.h"
#include "keyway/group_policy.h"

namespace keyway {

// What happens to work for which a queue has no room.
enum class OnFull {
  kFailFast,  // it is turned away: an error (kRejected) that is retryable
  // Its caller waits for its turn, then runs it on its own thread, in the lane: order and exclusion hold. A single
  // call is turned away (kRejected): a post() by work of the same lane, which cannot wait for its own end.
  // dispatch() and run() do not need the queue there: they run their work at once, inside.
  kCallerRuns,
};

const char* to_string(OnFull on_full);

// What a lane is: whose work runs one at a time, in order.
enum class Routing {
  kPerKey,  // a key, on any thread: keys are never in each other's way
  kSticky,  // a worker, with a thread of its own for ever: keys are shared out among the workers by their hash
};

const char* to_string(Routing routing);

struct SerialOptions {
  int workers = 8;            // at least 1: how much runs at once
  int queue_capacity = 2000;  // at least 0: how much may wait in one lane
  // The maximum of queued work in all lanes together. Work counts from dispatch() or run() until a
  // worker starts it, even if a worker is idle; so part of a larger burst is rejected. Callers that
  // wait to run their own work do not count. At least 1; 0 only with OnFull::kCallerRuns: then
  // every caller runs its own work.
  int total_capacity = kUnlimited;
  OnFull on_full = OnFull::kFailFast;
  Routing routing = Routing::kPerKey;

  // Names the first that is out of range. A SerialDispatcher refuses such options.
  Result<void> validate() const;
};

struct SerialStats {
  std::uint64_t waiting = 0;          // now, in all lanes
  std::uint64_t running = 0;          // now
  std::uint64_t callers_in_line = 0;  // now: they wait for room in a lane, to run their own work
  // Since it was made. What was submitted and is none of these waits or runs.
  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t expired = 0;  // its time to begin was over
  // A queue was full, the dispatcher was shut down, or the call would have waited for ever.
  std::uint64_t rejected = 0;
  TimeSummary waits{};  // from the submit to the beginning of work that was queued
};

}  // namespace keyway
