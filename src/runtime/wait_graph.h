// Who waits for whom: so that a wait which could never end is refused instead of begun.
//
// An edge is an operation that waits for a task, or for a lock. A wait for a task may end if that one runs; or if
// it stands in a queue, or must come back to it, and enough of those who hold permits there can get out of the way.
// A wait for a lock may end if those who hold it can let go. A coroutine that waits for several ends when
// all of these waits do. Every wait is checked when it begins, together with all that are there, so the
// one that would close a cycle finds it. What may end then can only be kept from it by a limit that goes
// down later: see look_again().
//
// There is one graph in a process, so that cycles through several executors, and through locks, are found too.
//
// Thread safety: every method from any thread. Owners are asked for need() and to
// give_back_permit(), and locks for their holders, under the graph's mutex.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/operation.h"
#include "keyway/detail/task_core.h"
#include "keyway/error.h"

namespace keyway {

// A lock that somebody wants, as the graph sees it.
class WantedLock {
 public:
  // The operations that keep `waiter` from it: its holders, by their ids.
  virtual std::vector<std::uint64_t> in_the_way_of(const detail::Operation& waiter) const = 0;
  virtual std::string name() const = 0;

 protected:
  ~WantedLock() = default;
};

class WaitGraph {
 public:
  static WaitGraph& instance();

  struct Edge {
    const detail::Operation* operation = nullptr;  // who waits
    detail::TaskCore* waiter = nullptr;            // its task; null: none
    detail::TaskCore* task = nullptr;              // what it waits for: a task
    const WantedLock* lock = nullptr;              // or a lock
    bool holds_permit = false;                     // of its task's lane, while it waits
    bool bounded = false;                          // ends by itself, by a timeout
  };
  using Ticket = std::list<Edge>::iterator;

  // Adds the edge, or finds that it would close a cycle: an error (kWaitCycle) that names it.
  Result<Ticket> begin(const Edge& edge) KEYWAY_EXCLUDES(mutex_);
  void end(Ticket ticket) KEYWAY_EXCLUDES(mutex_);

  // Which task `waiter` waits for, for people; empty if it waits for none.
  std::string waits_for(const detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);

  // To be called when fewer may run in a lane than before. Where tasks that wait hold permits which the
  // others would now need for ever, they give them back for the time of the wait.
  // True if any did.
  bool look_again() KEYWAY_EXCLUDES(mutex_) {
    // A wait that began before the limit went down is seen here: its check and the change of the
    // limit are under the lane's lock. One that begins afterwards sees the new limit.
    return edge_count_.load(std::memory_order_relaxed) > 0 && free_what_is_stuck();
  }

 private:
  // Tasks and locks on the way from the new wait to the one in question, and those whose waits are known to
  // end. If one does not: the edges of the cycle, the last one first.
  struct Search {
    std::vector<const void*> path;
    std::vector<const void*> ending;
    std::vector<const Edge*> cycle;
  };
  bool free_what_is_stuck() KEYWAY_EXCLUDES(mutex_);
  void gave_back(const detail::TaskCore& waiter) KEYWAY_REQUIRES(mutex_);
  bool may_end(const Edge& edge, Search& search) KEYWAY_REQUIRES(mutex_);
  bool find_out(detail::TaskCore& target, Search& search) KEYWAY_REQUIRES(mutex_);
  bool find_out(const Edge& edge, const WantedLock& lock, Search& search) KEYWAY_REQUIRES(mutex_);
  template <class Belongs>  // bool belongs(const Edge&)
  bool all_may_end(Belongs belongs, Search& search) KEYWAY_REQUIRES(mutex_);
  bool all_waits_may_end(const detail::TaskCore* waiter, Search& search) KEYWAY_REQUIRES(mutex_);

  detail::Atomic<std::size_t> edge_count_{0};  // written under mutex_
  Mutex<LockRank::kWaitGraph> mutex_;
  std::list<Edge> edges_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
