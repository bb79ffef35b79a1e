// Waits until turns of a scheduler's threads have ended or have begun to block.
//
// A thread stores that its turn has ended, or has begun to block, and calls changed(). changed() is
// a relaxed load, because every turn calls it. So it may miss a new waiter, and a waiter checks
// again every millisecond.
//
// Thread safety: every method from any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/futex.h"
#include "runtime/blocking.h"

namespace keyway {

class TurnWatch {
 public:
  void changed() {
    if (waiters_.load(std::memory_order_relaxed) > 0) [[unlikely]]
      bump();
  }

  // Blocks until over() is true; checks it again after each changed(). False if the deadline passed
  // first.
  template <class Over>
  bool wait(Over over, const TimePoint* deadline, Scheduler& scheduler) {
    struct Watched {
      bool done() { return over(); }
      std::uint32_t announce() { return watch.word_.load(std::memory_order_seq_cst); }
      const detail::Atomic<std::uint32_t>& word() const { return watch.word_; }
      void kick() { watch.bump(); }
      TurnWatch& watch;
      Over& over;
    } watched{*this, over};
    waiters_.fetch_add(1, std::memory_order_relaxed);
    bool done = false;
    bool in_time = true;
    while (!done && in_time) {
      TimePoint look_again = scheduler.now() + kLooksAgainAfter;
      if (deadline != nullptr) look_again = std::min(look_again, *deadline);
      done =
          block(watched, {.deadline = &look_again, .yields = kYields, .scheduler = &scheduler}) ==
          WaitEnd::kDone;
      in_time = deadline == nullptr || scheduler.now() < *deadline;
    }
    waiters_.fetch_sub(1, std::memory_order_relaxed);
    return done;
  }

 private:
  // Yields before the first sleep: most turns are short.
  static constexpr int kYields = spins_before_sleep(16);
  static constexpr Duration kLooksAgainAfter = std::chrono::milliseconds(1);

  void bump() {
    word_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(word_);
  }

  detail::Atomic<std::uint32_t> waiters_{0};
  detail::Atomic<std::uint32_t> word_{0};
};

}  // namespace keyway
