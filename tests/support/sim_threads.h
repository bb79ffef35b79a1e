// For tests: a scheduler with a bounded number of threads, in a simulation. An item that blocks keeps its thread, so a
// wait that would leave no thread for what it waits for must be refused (kNoThread).
//
//   testing::SimScheduler sim(seed);
//   SimThreads threads(sim, 2);
//   GroupExecutor executor({...}, threads);
//
// Thread safety: one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "runtime/current_scheduler.h"
#include "support/sim_decorator.h"

namespace keyway {

class SimThreads : public SimDecorator {
 public:
  // With kUnlimitedThreads, posted items are items of the simulation itself.
  SimThreads(testing::SimScheduler& sim, std::size_t threads) : SimDecorator(sim) {
    if (threads == kUnlimitedThreads) return;
    for (std::size_t i = 0; i < threads; ++i) free_.push_back(&threads_.emplace_back(*this));
  }

  void post(Runnable& runnable) override {
    if (!bounded()) return sim_.post(runnable);
    items_.push_back(&runnable);
    if (free_.empty()) return;  // a busy thread takes it
    sim_.post(*free_.back());
    free_.pop_back();
  }
  std::size_t max_threads() const override {
    return bounded() ? threads_.size() : kUnlimitedThreads;
  }

  // As the pool in the background of a process.
  Scheduler* background() override { return bounded() ? &sim_ : nullptr; }

  bool bounded() const { return !threads_.empty(); }
  // The number of threads inside an item. All of them block, except the calling thread.
  std::size_t threads_in_items() const { return threads_in_items_; }

 private:
  class Thread final : public Runnable {
   public:
    explicit Thread(SimThreads& owner) : owner_(owner) {}

   private:
    void run(Turn& turn) override { owner_.run_item(*this, turn); }
    SimThreads& owner_;
  };

  // Runs one item, in any order, and comes again while there are more.
  void run_item(Thread& thread, Turn& turn) {
    if (!items_.empty()) {
      const std::size_t index = items_.size() == 1 ? 0 : sim_.random_below(items_.size());
      Runnable& item = *items_[index];
      items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(index));
      Turn own;
      ++threads_in_items_;
      {
        const CurrentScheduler here(this);
        item.run(own);
      }
      --threads_in_items_;
      if (own.again != nullptr) items_.push_back(own.again);
    }
    if (items_.empty()) {
      free_.push_back(&thread);
    } else {
      turn.again = &thread;
    }
  }

  std::deque<Thread> threads_;
  std::vector<Thread*> free_;  // neither posted nor inside an item
  std::deque<Runnable*> items_;
  std::size_t threads_in_items_ = 0;
};

}  // namespace keyway
