// Layer 1: how many tasks of all groups may run at once.
//
// Lanes come here with their turn before they take a waiter. One that finds no permit stands in line
// and keeps its turn; a permit that comes free goes to the first in line. So the order in which lanes
// came is kept, and round robin with it.
//
// Thread safety: every method from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/spin_lock.h"
#include "lanes/lane.h"

namespace keyway {

class GlobalGate {
 public:
  // One who gave its permit back while it waited for another task, and wants to go on.
  class Returner {
   public:
    virtual void go_on() = 0;

   protected:
    ~Returner() = default;
  };

  explicit GlobalGate(std::uint32_t limit) : limit_(limit) {}

  // True: the lane has a permit. False: it stands in line, and will come out of leave().
  // REQUIRES: the caller has the lane's turn.
  bool enter(Lane& lane) KEYWAY_EXCLUDES(lock_);

  // Gives a permit back. The lane to post, which has it now, or null.
  [[nodiscard]] Lane* leave() KEYWAY_EXCLUDES(lock_);

  // Asks for a permit in front of all lanes. True: it is there. False: go_on() will be called.
  bool enter_again(Returner& returner) KEYWAY_EXCLUDES(lock_);

  // Up at once, down as tasks end. Gives the lanes to post, which have a permit now.
  [[nodiscard]] std::vector<Lane*> set_limit(std::uint32_t limit) KEYWAY_EXCLUDES(lock_);

  // Whether whoever has a permit should give it back after its task: others stand in line, or more
  // are out than the limit allows by now. relaxed: a hint.
  bool contended() const {
    return in_line_.load(std::memory_order_relaxed) > 0 || over_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> in_line_{0};
  std::atomic<bool> over_{false};

  SpinLock lock_;
  std::uint32_t limit_ KEYWAY_GUARDED_BY(lock_);
  std::uint32_t in_flight_ KEYWAY_GUARDED_BY(lock_) = 0;
  std::deque<Returner*> returners_ KEYWAY_GUARDED_BY(lock_);
  std::deque<Lane*> lanes_ KEYWAY_GUARDED_BY(lock_);
};

}  // namespace keyway
