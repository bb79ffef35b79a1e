#include "lanes/ready_queue.h"

#include "base/prefetch.h"

namespace keyway {
namespace {

constexpr int kSpinsBeforeYield = 256;

}  // namespace

Runnable* ReadyQueue::pop() {
  // relaxed: who misses a push here looks again with empty() before it sleeps.
  if (last_.load(std::memory_order_relaxed) == &stub_) return nullptr;
  SpinGuard guard(pop_lock_);
  Runnable* item = first_;
  if (item == &stub_) {
    if (last_.load(std::memory_order_relaxed) == &stub_) return nullptr;
    item = next_of(stub_);
  }
  // acquire: pairs with append().
  Runnable* next = item->next_ready_.load(std::memory_order_acquire);
  if (next == nullptr) {
    // The last one. With the stub behind it, it can go; unless somebody comes in between.
    stub_.next_ready_.store(nullptr, std::memory_order_relaxed);
    Runnable* expected = item;
    if (last_.compare_exchange_strong(expected, &stub_, std::memory_order_seq_cst)) {
      first_ = &stub_;
      return item;
    }
    next = next_of(*item);
  }
  // The cache lines that whoever runs it will touch first.
  prefetch_to_write(next);
  prefetch_to_write(next, 64);
  prefetch_to_write(next, 128);
  first_ = next;
  return item;
}

// REQUIRES: somebody has appended behind `item`, or is just about to.
Runnable* ReadyQueue::next_of(Runnable& item) {
  for (int spins = 0;; ++spins) {
    if (Runnable* next = item.next_ready_.load(std::memory_order_acquire)) return next;
    if (spins < kSpinsBeforeYield) {
      cpu_relax();
    } else {
      yield_thread();  // the appending thread was preempted
    }
  }
}

}  // namespace keyway
