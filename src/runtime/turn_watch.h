// The wait of a thread until turns of a scheduler's threads have ended, or block.
//
// A thread whose turn ends, or begins to block, first writes that down in a seq_cst store of the scheduler's, then calls
// changed(). A waiting thread counts itself before it looks: one of the two sees the other. Without a waiter, changed() is
// one load.
//
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>

#include "base/futex.h"
#include "runtime/blocking.h"

namespace keyway {

class TurnWatch {
 public:
  void changed() {
    if (waiters_.load(std::memory_order_seq_cst) == 0) [[likely]]
      return;
    bump();
  }

  // Waits until `over` holds, which is checked again after each changed(). False if the deadline came first.
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
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    const WaitEnd end =
        block(watched, {.deadline = deadline, .yields = kYields, .scheduler = &scheduler});
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
    return end == WaitEnd::kDone;
  }

 private:
  // Most turns in progress are about to end.
  static constexpr int kYields = spins_before_sleep(16);

  void bump() {
    word_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(word_);
  }

  detail::Atomic<std::uint32_t> waiters_{0};
  detail::Atomic<std::uint32_t> word_{0};
};

}  // namespace keyway
