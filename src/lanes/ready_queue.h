// What is ready to run, in the order it became so: lanes whose turn it is, coroutines to resume.
// Since a lane stands in it once, whatever the length of its queue, taking from the front and going
// back to the end is round robin across keys.
//
// Those who push and those who pop hardly meet: pushes go to a lock-free inbox; who pops and finds
// the outbox empty moves the whole inbox over, in order.
//
// Guarantees:
//   (1) First in, first out, for items whose pushes do not overlap.
//   (2) If a push comes before empty() in the order of seq_cst operations, empty() is false, unless
//       a pop() has taken the item, or has moved it over and will say so by `brought_more`.
//       The pool's sleep protocol builds on it.
//
// Thread safety: every method from any thread.
#pragma once

#include <atomic>

#include "base/spin_lock.h"
#include "keyway/scheduler.h"

namespace keyway {

class ReadyQueue {
 public:
  void push(Runnable& item);

  struct Popped {
    Runnable* item;     // null if there is none
    bool brought_more;  // the inbox was moved over, and there is more behind `item`
  };
  Popped pop();

  bool empty() const {
    return inbox_.load(std::memory_order_seq_cst) == nullptr &&
           outbox_.load(std::memory_order_seq_cst) == nullptr;
  }

 private:
  alignas(64) std::atomic<Runnable*> inbox_{nullptr};  // last in first
  alignas(64) SpinLock pop_lock_;
  std::atomic<Runnable*> outbox_{nullptr};  // first in first; written under pop_lock_
};

}  // namespace keyway
