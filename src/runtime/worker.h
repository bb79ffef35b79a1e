// One thread of a pool, as others see it.
#pragma once

#include <cstdint>
#include <thread>

#include <sys/types.h>

#include "keyway/detail/atomic.h"
#include "runtime/blocked_probe.h"

namespace keyway {

struct alignas(64) Worker {
  // Written by the worker alone, read by others. Odd while a turn is in progress.
  detail::Atomic<std::uint64_t> turn_edges{0};
  detail::Atomic<std::uint64_t> parks{0};
  detail::Atomic<std::uint32_t> blocking_depth{0};  // begin_blocking() without end_blocking()

  // Where a parked worker sleeps: 1 wakes it.
  alignas(64) detail::Atomic<std::uint32_t> wake_token{0};

  // Under the pool's park mutex.
  Worker* next_parked = nullptr;
  Worker* previous_parked = nullptr;
  bool in_parked_list = false;

  // Under the pool's workers mutex.
  BlockedProbe* probe = nullptr;  // lives on the worker's stack; null before and after
  pid_t thread_id = 0;
  bool ended = false;  // the thread does not use the pool any more
  std::thread thread;  // not joinable while the end of the pool joins it
};

}  // namespace keyway
