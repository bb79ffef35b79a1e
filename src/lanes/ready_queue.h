// What is ready to run, in the order it became so: lanes whose turn it is, coroutines to resume.
// Since a lane stands in it once, whatever the length of its queue, taking from the front and going
// back to the end is round robin across keys.
//
// A linked list that is extended at one end without a lock and shortened at the other under one, so
// those who push and those who pop hardly meet. An item of its own, `stub_`, stands in it whenever it
// would be empty.
//
// Guarantees:
//   (1) First in, first out.
//   (2) If a push comes before empty() in the order of seq_cst operations, empty() is false, unless a
//       pop() has taken the item. The pool's sleep protocol builds on it.
//
// Thread safety: every method from any thread.
#pragma once

#include "base/spin_lock.h"
#include "keyway/detail/atomic.h"
#include "keyway/scheduler.h"

namespace keyway {

class ReadyQueue {
 public:
  ReadyQueue() : last_(&stub_), first_(&stub_) {}
  ReadyQueue(const ReadyQueue&) = delete;
  ReadyQueue& operator=(const ReadyQueue&) = delete;

  void push(Runnable& item) {
    // relaxed: released by the store in append().
    item.next_ready_.store(nullptr, std::memory_order_relaxed);
    append(item);
  }

  // Null if there is none.
  Runnable* pop();

  bool empty() const { return last_.load(std::memory_order_seq_cst) == &stub_; }

 private:
  class Stub final : public Runnable {
    void run(Turn&) override {}
  };

  void append(Runnable& item) {
    // seq_cst: see guarantee (2).
    Runnable* before = last_.exchange(&item, std::memory_order_seq_cst);
    // Until this store the list is torn here; pop() waits for it. release: pairs with pop().
    before->next_ready_.store(&item, std::memory_order_release);
  }
  static Runnable* next_of(Runnable& item);

  Stub stub_;
  alignas(64) detail::Atomic<Runnable*> last_;  // &stub_ if and only if the queue is empty
  alignas(64) SpinLock<LockRank::kReadyQueue> pop_lock_;
  Runnable* first_ KEYWAY_GUARDED_BY(pop_lock_);
};

}  // namespace keyway
