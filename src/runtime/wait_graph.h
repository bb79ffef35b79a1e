// Who waits for whom, among tasks that wait for tasks: so that a wait which could never end is
// refused instead of begun.
//
// A task that waits for another is an edge. The wait may end if the other one runs; or if it stands in
// a queue and somebody ahead of it can get out of the way. A coroutine that waits for several ends when
// all of these waits do. Every wait is checked when it begins,
// together with all that are there, so the one that would close a cycle finds it.
//
// There is one graph in a process, so that cycles through several executors are found too.
//
// Thread safety: every method from any thread. Owners are asked for permits_in_the_way() under the
// graph's mutex.
#pragma once

#include <list>
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

 private:
  // Tasks on the way from the new wait to the one in question, and those that are known to end.
  struct Search {
    std::vector<const detail::TaskCore*> path;
    std::vector<const detail::TaskCore*> ending;
  };
  bool may_end(detail::TaskCore& target, Search& search) KEYWAY_REQUIRES(mutex_);
  bool find_out(detail::TaskCore& target, Search& search) KEYWAY_REQUIRES(mutex_);
  bool all_waits_may_end(const detail::TaskCore& waiter, Search& search) KEYWAY_REQUIRES(mutex_);

  Mutex mutex_;
  std::list<Edge> edges_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
