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
  if (!edge.holds_permit) gave_back(*edge.waiter);
  edges_.push_front(edge);
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
  Search search;
  if (edge.bounded || may_end(*edge.target, search)) {
    ticket = edges_.begin();
    return true;
  }
  edges_.pop_front();
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
  return false;
}

void WaitGraph::end(Ticket ticket) {
  MutexLock lock(mutex_);
  edges_.erase(ticket);
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
}

void WaitGraph::gave_back(const TaskCore& waiter) {
  for (Edge& edge : edges_) {
    if (edge.waiter == &waiter) edge.holds_permit = false;
  }
}

bool WaitGraph::free_what_is_stuck() {
  bool any = false;
  std::vector<std::pair<Scheduler*, Runnable*>> to_post;
  {
    MutexLock lock(mutex_);
    for (const Edge& edge : edges_) {
      Search search;
      if (!edge.holds_permit || edge.bounded || may_end(*edge.target, search)) continue;
      detail::TaskOwner& owner = edge.waiter->owner();
      if (Runnable* lane = owner.give_back_permit(*edge.waiter)) {
        to_post.emplace_back(&owner.scheduler(), lane);
      }
      gave_back(*edge.waiter);
      any = true;
    }
  }
  for (const auto& [scheduler, lane] : to_post) scheduler->post(*lane);
  return any;
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
  if (!all_waits_may_end(target.owner().ends_with(target), search)) return false;
  const detail::TaskOwner::Need need = target.owner().need(target);
  if (need.room == 0) return true;
  // Those who are at work there will end, and leave; those who wait may hold their permits for ever.
  std::vector<const TaskCore*> seen;
  std::uint64_t held = 0;
  for (const Edge& edge : edges_) {
    if (!edge.holds_permit || !same_lane(*edge.waiter, target)) continue;
    if (std::find(seen.begin(), seen.end(), edge.waiter) != seen.end()) continue;
    seen.push_back(edge.waiter);
    if (!all_waits_may_end(edge.waiter, search)) held += edge.waiter->units();
    if (held + need.room > need.limit) return false;
  }
  return true;
}

// The pointer is only compared: the task may be gone.
bool WaitGraph::all_waits_may_end(const TaskCore* waiter, Search& search) {
  for (const Edge& edge : edges_) {
    if (edge.waiter != waiter || edge.bounded) continue;
    if (!may_end(*edge.target, search)) return false;
  }
  return true;
}

}  // namespace keyway
