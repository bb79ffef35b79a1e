#include "lanes/ready_queue.h"

#include <utility>

namespace keyway {

void ReadyQueue::push(Runnable& item) {
  Runnable* head = inbox_.load(std::memory_order_relaxed);
  do {
    item.next_ready_ = head;
    // seq_cst: see guarantee (2). It also releases *item to the acquire in pop().
  } while (!inbox_.compare_exchange_weak(head, &item, std::memory_order_seq_cst,
                                         std::memory_order_relaxed));
}

ReadyQueue::Popped ReadyQueue::pop() {
  // relaxed: who misses a push here looks again with empty() before it sleeps.
  if (outbox_.load(std::memory_order_relaxed) == nullptr &&
      inbox_.load(std::memory_order_relaxed) == nullptr) {
    return {nullptr, false};
  }
  SpinGuard guard(pop_lock_);
  if (Runnable* first = outbox_.load(std::memory_order_relaxed)) {
    __builtin_prefetch(first->next_ready_);
    // relaxed: only the step to null matters to empty(), and who sees it late looks once more.
    outbox_.store(first->next_ready_, std::memory_order_relaxed);
    return {first, false};
  }
  // acquire: pairs with push(). seq_cst: see guarantee (2).
  Runnable* item = inbox_.exchange(nullptr, std::memory_order_seq_cst);
  Runnable* first = nullptr;
  while (item != nullptr) {
    Runnable* next = std::exchange(item->next_ready_, first);
    first = std::exchange(item, next);
  }
  if (first == nullptr) return {nullptr, false};
  // seq_cst: between the exchange and this store the items are in nobody's sight. Who looks then
  // and goes to sleep has said so before, and the caller, told by brought_more, wakes it.
  outbox_.store(first->next_ready_, std::memory_order_seq_cst);
  return {first, first->next_ready_ != nullptr};
}

}  // namespace keyway
