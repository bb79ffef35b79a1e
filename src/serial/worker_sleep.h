// Puts the thread of a WorkerThread to sleep and wakes it, without losing a wake-up.
//
// The thread stores that it sleeps, then looks for work once more. A poster pushes its item, then
// checks whether the thread sleeps. So one of them sees the other.
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
  // To be called after an item was posted.
  void wake() {
    // seq_cst: pairs with wait_for_work().
    if (sleeps_.load(std::memory_order_seq_cst) == 0) return;
    if (sleeps_.exchange(0, std::memory_order_seq_cst) == 1) futex_wake_one(sleeps_);
  }
  // Ends wait_for_work(), now and in future calls.
  void stop() {
    stopping_.store(true, std::memory_order_seq_cst);
    wake();
  }

  // Blocks until has_work() is true or stop() was called. False: stop() was called, and there is no
  // work.
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
  // A few microseconds: the next post often comes soon, and a wake-up costs the poster 13 us. It is
  // short because there may be many WorkerThreads.
  static constexpr int kSpinsBeforeSleep = 150;

  detail::Atomic<std::uint32_t> sleeps_{0};  // 1: a thread that posts must wake it
  detail::Atomic<bool> stopping_{false};
};

}  // namespace keyway
