// What is pending and what is done of one partition, from its assignment to its revocation.
//
//   Ledger ledger({.watermark = 40});
//   Ledger::Entry& entry = ledger.add(41, 42);   // in the order of offsets
//   entry.settle(Ledger::State::kDone);          // by whichever thread handled it
//   Progress progress = ledger.snapshot();       // everything below its watermark is done
//
// One thread adds and takes snapshots; those who handle records only set a flag in their entry. So nothing is locked,
// and a snapshot is one look at flags that never go back: what it says is done was done, and watermark and gap
// map belong together.
//
// Guarantees:
//   (1) The watermark never passes an entry that is neither done nor dead.
//   (2) O(1) amortised per record: each entry is passed once by the watermark. A snapshot looks at the window.
//   (3) Memory is bounded by the window: what lies below the watermark is freed.
// A partition that is assigned again gets a new ledger; whoever settles an entry of the old one changes nothing.
//
// Thread safety: Entry::settle() and set_retrying() from any thread; the rest from one.
// Lifetime: outlives the use of its entries; a shared_ptr to it does.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "keyway/detail/atomic.h"
#include "keyway/source.h"

namespace keyway {

class Ledger {
 public:
  enum class State : std::uint8_t { kPending, kRetrying, kDone, kDead };

  class Entry {
   public:
    Offset offset() const { return offset_; }
    // release: what the handler wrote, a dead letter for one, is there before the watermark may pass.
    void settle(State state) { state_.store(state, std::memory_order_release); }
    void set_retrying(bool retrying) {
      state_.store(retrying ? State::kRetrying : State::kPending, std::memory_order_relaxed);
    }

   private:
    friend class Ledger;
    // acquire: pairs with settle().
    State state() const { return state_.load(std::memory_order_acquire); }
    bool settled() const { return state() >= State::kDone; }

    Offset offset_ = 0;
    detail::Atomic<State> state_{State::kPending};
  };

  explicit Ledger(Progress committed);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  PartitionId partition() const { return partition_; }

  // REQUIRES: `offset` is not below the end of the one before. What lies between is done: there is nothing there.
  Entry& add(Offset offset, Offset end);

  // What is done.
  Progress snapshot();
  Offset watermark();                  // the first offset that is not done
  Offset end() const { return end_; }  // above all that were added
  std::size_t window() const {
    return size_;
  }  // how many entries are kept; may shrink with each look

  struct Counts {
    std::uint64_t pending = 0;
    std::uint64_t retrying = 0;
    std::uint64_t done_above = 0;  // above the watermark, the dead among them
    std::uint64_t gaps = 0;        // how many runs of these
  };
  Counts counts();

 private:
  static constexpr std::size_t kBlock = 1024;
  using Block = std::array<Entry, kBlock>;

  Entry& at(std::size_t index) {
    return (*blocks_[(first_ + index) / kBlock])[(first_ + index) % kBlock];
  }
  Offset end_of(std::size_t index) { return index + 1 < size_ ? at(index + 1).offset() : end_; }
  void pass_what_is_done();
  void pop_front();

  const PartitionId partition_;
  GapMap done_before_;  // committed earlier, and above the watermark
  Offset end_;
  std::deque<std::unique_ptr<Block>> blocks_;
  std::size_t first_ = 0;  // in the first block
  std::size_t size_ = 0;
};

}  // namespace keyway
