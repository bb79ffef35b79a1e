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
  Visited visited;
  if (edge.bounded || may_end(*edge.target, visited)) {
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

bool WaitGraph::may_end(TaskCore& target, Visited& visited) {
  if (target.done()) return true;
  if (std::find(visited.begin(), visited.end(), &target) != visited.end()) return false;
  visited.push_back(&target);

  bool waits = false;
  for (const Edge& edge : edges_) {
    if (edge.waiter != &target) continue;
    if (edge.bounded || may_end(*edge.target, visited)) return true;
    waits = true;
  }
  if (waits) return false;
  const std::uint64_t in_the_way = target.owner().permits_in_the_way(target);
  std::uint64_t waiting_there = 0;
  for (const Edge& edge : edges_) {
    if (!edge.holds_permit || !same_lane(*edge.waiter, target)) continue;
    ++waiting_there;
    if (edge.bounded || may_end(*edge.target, visited)) return true;
  }
  // Somebody in there is at work, and will end.
  return waiting_there < in_the_way || in_the_way == 0;
}

}  // namespace keyway
