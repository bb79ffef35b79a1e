// Who sleeps, who searches, who works: the counts by which a pool decides whether to wake somebody.
//
// The rule that loses no wake-up. Both sides write first and look second, in seq_cst order:
//
//   who posts        pushes the item           then reads the counts: if nobody searches and
//                                              somebody is parked, wakes one
//   who goes to      says so in the counts     then looks into the queue once more: if it is not
//   sleep                                      empty, gets up again, and searches
//
// So either the poster sees the sleeper or the sleeper sees the item. A worker that searches when
// the item comes is not woken, but it looks once more when it stops searching: as a sleeper (above),
// or, when it has found other work, as a poster (it wakes the next).
//
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>

#include "keyway/detail/atomic.h"

namespace keyway {

struct IdleCounts {
  std::uint32_t threads;    // alive
  std::uint32_t parked;     // of these, asleep or about to be
  std::uint32_t searching;  // of these, looking for work

  std::uint32_t active() const { return threads - parked; }
};

class IdleProtocol {
 public:
  IdleCounts counts() const { return unpack(word_.load(std::memory_order_seq_cst)); }

  void thread_started() { add(kThread + kSearching); }
  void thread_ended() { add(-kThread); }
  void thread_ended_parked() { add(-kThread - kParked); }

  // At most one searches at a time, but for those who were just woken.
  bool start_searching() {
    std::int64_t word = word_.load(std::memory_order_relaxed);
    if (unpack(word).searching > 0) return false;
    return word_.compare_exchange_strong(word, word + kSearching, std::memory_order_seq_cst,
                                         std::memory_order_relaxed);
  }
  // True if it was the last: the caller looks into the queue once more.
  bool stop_searching() { return add(-kSearching).searching == 1; }

  // Before the caller looks into the queue for the last time.
  void park(bool was_searching) { add(was_searching ? kParked - kSearching : kParked); }
  // Whoever gets up, by itself or woken, searches: so it looks for more when it has found something.
  void unpark_to_search() { add(kSearching - kParked); }

  // Parks although there may be work, if `wanted` others stay active.
  bool park_surplus(std::uint32_t wanted) {
    std::int64_t word = word_.load(std::memory_order_relaxed);
    do {
      if (unpack(word).active() <= wanted) return false;
    } while (!word_.compare_exchange_weak(word, word + kParked, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    return true;
  }

 private:
  static constexpr int kBits = 20;
  static constexpr std::int64_t kThread = 1;
  static constexpr std::int64_t kParked = std::int64_t{1} << kBits;
  static constexpr std::int64_t kSearching = std::int64_t{1} << (2 * kBits);

  static IdleCounts unpack(std::int64_t word) {
    constexpr std::int64_t kMask = kParked - 1;
    return {.threads = static_cast<std::uint32_t>(word & kMask),
            .parked = static_cast<std::uint32_t>((word >> kBits) & kMask),
            .searching = static_cast<std::uint32_t>((word >> (2 * kBits)) & kMask)};
  }
  // The counts before.
  IdleCounts add(std::int64_t delta) {
    return unpack(word_.fetch_add(delta, std::memory_order_seq_cst));
  }

  detail::Atomic<std::int64_t> word_{0};
};

}  // namespace keyway
