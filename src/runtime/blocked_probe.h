// Tells from outside whether a thread is blocked: waiting for something other than a core.
//
// A thread's CPU clock alone cannot tell it from a thread that is ready to run but was preempted,
// and a pool that took the one for the other would grow under CPU-bound work on a busy machine. So
// a thread counts as blocked if it has used hardly any CPU since the last look *and* the kernel
// says that it sleeps.
//
// Thread safety: blocked() from one thread at a time.
// Lifetime: asked only while its thread lives.
#pragma once

#include <chrono>
#include <ctime>

#include <sys/types.h>

#include "keyway/scheduler.h"

namespace keyway {

class BlockedProbe {
 public:
  // For the calling thread.
  BlockedProbe();

  bool blocked(TimePoint now);

 private:
  bool sleeps() const;

  pid_t thread_id_;
  clockid_t cpu_clock_;
  TimePoint last_look_;
  std::chrono::nanoseconds last_cpu_{0};
};

}  // namespace keyway
