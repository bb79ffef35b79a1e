// Who waits for whom, among tasks that wait for tasks: so that a wait which could never end is
// refused instead of begun.
//
// A task that waits for another is an edge. The wait may end if the other one runs; or if it stands in
// a queue, or must come back to it, and enough of those who hold permits there can get out of the way. A coroutine that waits for several ends when
// all of these waits do. Every wait is checked when it begins, together with all that are there, so the
// one that would close a cycle finds it. What may end then can only be kept from it by a limit that goes
// down later: see look_again().
//
// There is one graph in a process, so that cycles through several executors are found too.
//
// Thread safety: every method from any thread. Owners are asked for need() and to
// give_back_permit() under the graph's mutex.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/task_core.h"

namespace keyway {

class WaitGraph {
 public:
  static WaitGraph& instance();

  struct Edge {
    detail::TaskCore* waiter;
    detail::TaskCore* target;
    bool holds_permit;  // of its lane, while it waits
    bool bounded;       // ends by itself, by a timeout
  };
  using Ticket = std::list<Edge>::iterator;

  // Adds the edge and says true, or finds that it would close a cycle.
  bool begin(const Edge& edge, Ticket& ticket) KEYWAY_EXCLUDES(mutex_);
  void end(Ticket ticket) KEYWAY_EXCLUDES(mutex_);

  // Which task `waiter` waits for, for people; empty if it waits for none.
  std::string waits_for(const detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (const Edge& edge : edges_) {
      if (edge.waiter == &waiter) return detail::name_of(*edge.target);
    }
    return {};
  }

  // To be called when fewer may run in a lane than before. Where tasks that wait hold permits which the
  // others would now need for ever, they give them back for the time of the wait.
  // True if any did.
  bool look_again() KEYWAY_EXCLUDES(mutex_) {
    // A wait that began before the limit went down is seen here: its check and the change of the
    // limit are under the lane's lock. One that begins afterwards sees the new limit.
    return edge_count_.load(std::memory_order_relaxed) > 0 && free_what_is_stuck();
  }

 private:
  bool free_what_is_stuck() KEYWAY_EXCLUDES(mutex_);
  // Tasks on the way from the new wait to the one in question, and those that are known to end.
  struct Search {
    std::vector<const detail::TaskCore*> path;
    std::vector<const detail::TaskCore*> ending;
  };
  void gave_back(const detail::TaskCore& waiter) KEYWAY_REQUIRES(mutex_);
  bool may_end(detail::TaskCore& target, Search& search) KEYWAY_REQUIRES(mutex_);
  bool find_out(detail::TaskCore& target, Search& search) KEYWAY_REQUIRES(mutex_);
  bool all_waits_may_end(const detail::TaskCore* waiter, Search& search) KEYWAY_REQUIRES(mutex_);

  std::atomic<std::size_t> edge_count_{0};  // written under mutex_
  Mutex mutex_;
  std::list<Edge> edges_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
