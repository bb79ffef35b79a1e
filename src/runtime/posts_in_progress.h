// Counts calls of Scheduler::post() that have not returned.
//
// A posted item may run, and may be the last work of its scheduler, before post() has returned. So
// a thread that is not the scheduler's may still be inside post() when the owner destroys the
// scheduler; the destructor waits for such calls. The counters of different threads lie in
// different cache lines.
//
// Thread safety: every method from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/spin_lock.h"
#include "keyway/detail/atomic.h"
#include "runtime/thread_context.h"

namespace keyway {

class PostsInProgress {
 public:
  class Post {
   public:
    // relaxed: post() releases the item after this, so a thread that sees the item run sees the
    // count.
    explicit Post(PostsInProgress& all) : count_(all.count_of_this_thread()) {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    // release: pairs with wait_for_all().
    ~Post() { count_.fetch_sub(1, std::memory_order_release); }
    Post(const Post&) = delete;
    Post& operator=(const Post&) = delete;

   private:
    detail::Atomic<std::uint32_t>& count_;
  };

  // For destructors. It yields instead of sleeping, because post() is short.
  void wait_for_all() {
    for (const Slot& slot : slots_) {
      while (slot.count.load(std::memory_order_acquire) > 0) yield_thread();
    }
  }

 private:
  struct alignas(64) Slot {
    detail::Atomic<std::uint32_t> count{0};
  };

  detail::Atomic<std::uint32_t>& count_of_this_thread() {
    const auto address = reinterpret_cast<std::uintptr_t>(&ThreadContext::here());
    return slots_[(address * 0x9e3779b97f4a7c15U >> 32) % slots_.size()].count;
  }

  std::array<Slot, 8> slots_;
};

}  // namespace keyway
