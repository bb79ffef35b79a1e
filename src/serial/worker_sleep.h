// How the one thread of a WorkerThread goes to sleep, and is woken: no wake-up is lost.
//
// The thread says that it sleeps before it looks for the last time; a thread that posts looks after it has posted whether
// the other one sleeps. So one of them sees the other.
//
// Thread safety: wait_for_work() from one thread; the other methods from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/futex.h"
#include "base/spin_lock.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/block_pool.h"
#include "keyway/scheduler.h"

namespace keyway {

class WorkerSleep {
 public:
  // To be called after something was posted.
  void wake() {
    // seq_cst: pairs with wait_for_work().
    if (sleeps_.load(std::memory_order_seq_cst) == 0) return;
    if (sleeps_.exchange(0, std::memory_order_seq_cst) == 1) futex_wake_one(sleeps_);
  }
  // From now on the thread does not wait any more.
  void stop() {
    stopping_.store(true, std::memory_order_seq_cst);
    wake();
  }

  // Waits until has_work() holds, or stop() was called. False if there is nothing left, and the thread is to end.
  template <class HasWork>
  bool wait_for_work(HasWork has_work, const Scheduler& clock) {
    for (int i = spins_before_sleep(kSpinsBeforeSleep); i > 0; --i) {
      if (has_work()) return true;
      cpu_relax();
    }
    Deadline keeps_memory = clock.now() + detail::kBlocksKept;
    while (true) {
      sleeps_.store(1, std::memory_order_seq_cst);
      const bool stopping = stopping_.load(std::memory_order_seq_cst);
      if (stopping || has_work()) {
        sleeps_.store(0, std::memory_order_seq_cst);
        return !stopping || has_work();
      }
      if (!futex_wait(sleeps_, 1, keeps_memory)) {
        detail::release_thread_blocks();
        keeps_memory = std::nullopt;
      }
    }
  }

 private:
  // A few microseconds: the next post often comes at once, and waking the thread costs the poster 13 us. There may be
  // many of these threads, so none looks for long.
  static constexpr int kSpinsBeforeSleep = 150;

  detail::Atomic<std::uint32_t> sleeps_{0};  // 1: a thread that posts must wake it
  detail::Atomic<bool> stopping_{false};
};

}  // namespace keyway
