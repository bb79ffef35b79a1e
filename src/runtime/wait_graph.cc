#include "runtime/wait_graph.h"

#include <algorithm>

namespace keyway {

using detail::TaskCore;

namespace {

bool same_lane(const TaskCore& a, const TaskCore& b) {
  return &a.owner() == &b.owner() && a.group_key() == b.group_key();
}

}  // namespace

WaitGraph& WaitGraph::instance() {
  static WaitGraph* graph = new WaitGraph;
  return *graph;
}

bool WaitGraph::begin(const Edge& edge, Ticket& ticket) {
  MutexLock lock(mutex_);
  if (!edge.holds_permit) {  // nor do the task's other waits any more
    for (Edge& other : edges_) {
      if (other.waiter == edge.waiter) other.holds_permit = false;
    }
  }
  edges_.push_front(edge);
  Search search;
  if (edge.bounded || may_end(*edge.target, search)) {
    ticket = edges_.begin();
    return true;
  }
  edges_.pop_front();
  return false;
}

void WaitGraph::end(Ticket ticket) {
  MutexLock lock(mutex_);
  edges_.erase(ticket);
}

bool WaitGraph::may_end(TaskCore& target, Search& search) {
  const auto contains = [&](const std::vector<const TaskCore*>& tasks) {
    return std::find(tasks.begin(), tasks.end(), &target) != tasks.end();
  };
  if (target.done() || contains(search.ending)) return true;
  if (contains(search.path)) return false;
  search.path.push_back(&target);
  const bool ends = find_out(target, search);
  search.path.pop_back();
  if (ends) search.ending.push_back(&target);
  return ends;
}

bool WaitGraph::find_out(TaskCore& target, Search& search) {
  const bool waits = std::any_of(edges_.begin(), edges_.end(),
                                 [&](const Edge& edge) { return edge.waiter == &target; });
  if (waits) return all_waits_may_end(target, search);

  const std::uint64_t in_the_way = target.owner().permits_in_the_way(target);
  if (in_the_way == 0) return true;
  std::vector<const TaskCore*> waiting_there;
  for (const Edge& edge : edges_) {
    if (!edge.holds_permit || !same_lane(*edge.waiter, target)) continue;
    if (std::find(waiting_there.begin(), waiting_there.end(), edge.waiter) == waiting_there.end()) {
      waiting_there.push_back(edge.waiter);
    }
  }
  // Somebody in there is at work, and will end.
  if (waiting_there.size() < in_the_way) return true;
  for (const TaskCore* waiter : waiting_there) {
    if (all_waits_may_end(*waiter, search)) return true;
  }
  return false;
}

bool WaitGraph::all_waits_may_end(const TaskCore& waiter, Search& search) {
  for (const Edge& edge : edges_) {
    if (edge.waiter != &waiter || edge.bounded) continue;
    if (!may_end(*edge.target, search)) return false;
  }
  return true;
}

}  // namespace keyway
