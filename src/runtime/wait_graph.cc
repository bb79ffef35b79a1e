#include "runtime/wait_graph.h"

#include <algorithm>

namespace keyway {

using detail::TaskCore;

namespace {

bool same_lane(const TaskCore& a, const TaskCore& b) {
  return &a.owner() == &b.owner() && a.group_key() == b.group_key();
}

template <class T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::string name_of_target(const WaitGraph::Edge& edge) {
  return edge.task != nullptr ? detail::name_of(*edge.task) : edge.lock->name();
}

std::string name_of_waiter(const WaitGraph::Edge& edge) {
  return edge.waiter != nullptr ? detail::name_of(*edge.waiter)
                                : detail::operation_name(edge.operation->id());
}

Error cycle_error(const WaitGraph::Edge& refused,
                  const std::vector<const WaitGraph::Edge*>& cycle) {
  std::string message = "waiting for " + name_of_target(refused) +
                        " would never end: " + name_of_waiter(refused) + " waits for " +
                        name_of_target(refused);
  bool locks = refused.lock != nullptr;
  std::vector<const WaitGraph::Edge*> told{&refused};
  for (auto edge = cycle.rbegin(); edge != cycle.rend(); ++edge) {
    if (contains(told, *edge)) continue;
    told.push_back(*edge);
    message += "; " + name_of_waiter(**edge) + " waits for " + name_of_target(**edge);
    locks = locks || (*edge)->lock != nullptr;
  }
  message += locks ? "; take the keys in one order everywhere, or by lock_all()"
                   : "; take the result after this task, or use other keys";
  return {ErrorCode::kWaitCycle, std::move(message)};
}

}  // namespace

WaitGraph& WaitGraph::instance() {
  static WaitGraph* graph = new WaitGraph;
  return *graph;
}

Result<WaitGraph::Ticket> WaitGraph::begin(const Edge& edge) {
  MutexLock lock(mutex_);
  if (!edge.holds_permit && edge.waiter != nullptr) gave_back(*edge.waiter);
  edges_.push_front(edge);
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
  Search search;
  if (may_end(edges_.front(), search)) return edges_.begin();
  Error error = cycle_error(edges_.front(), search.cycle);
  edges_.pop_front();
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
  return error;
}

void WaitGraph::end(Ticket ticket) {
  MutexLock lock(mutex_);
  edges_.erase(ticket);
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
}

std::string WaitGraph::waits_for(const TaskCore& waiter) {
  MutexLock lock(mutex_);
  for (const Edge& edge : edges_) {
    if (edge.waiter == &waiter) return name_of_target(edge);
  }
  return {};
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
      // Who waits for a lock inside a task cannot do without its permit.
      if (!edge.holds_permit || edge.task == nullptr || may_end(edge, search)) continue;
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

// A task's node in the search is the task, a lock's is the wait for it: what is in the way depends on who waits.
bool WaitGraph::may_end(const Edge& edge, Search& search) {
  if (edge.bounded) return true;
  const void* node = edge.task != nullptr ? static_cast<const void*>(edge.task) : &edge;
  const bool known = contains(search.ending, node) || (edge.task != nullptr && edge.task->done());
  if (known) return true;
  bool ends = false;
  if (!contains(search.path, node)) {
    search.path.push_back(node);
    ends = edge.task != nullptr ? find_out(*edge.task, search) : find_out(edge, *edge.lock, search);
    search.path.pop_back();
  }
  ends ? search.ending.push_back(node) : search.cycle.push_back(&edge);
  return ends;
}

bool WaitGraph::find_out(const Edge& edge, const WantedLock& lock, Search& search) {
  const std::vector<std::uint64_t> holders = lock.in_the_way_of(*edge.operation);
  for (const std::uint64_t holder : holders) {
    const auto is_of_holder = [&](const Edge& other) { return other.operation->is_within(holder); };
    if (!all_may_end(is_of_holder, search)) return false;
  }
  return true;
}

bool WaitGraph::find_out(TaskCore& target, Search& search) {
  if (!all_waits_may_end(target.owner().ends_with(target), search)) return false;
  const detail::TaskOwner::Need need = target.owner().need(target);
  if (need.room == 0) return true;
  // Those who are at work there will end, and leave; those who wait may hold their permits for ever.
  std::vector<const TaskCore*> seen;
  std::uint64_t held = 0;
  const std::size_t known = search.cycle.size();
  for (const Edge& edge : edges_) {
    if (!edge.holds_permit || !same_lane(*edge.waiter, target)) continue;
    if (contains(seen, static_cast<const TaskCore*>(edge.waiter))) continue;
    seen.push_back(edge.waiter);
    if (!all_waits_may_end(edge.waiter, search)) held += edge.waiter->units();
    if (held + need.room > need.limit) return false;
  }
  search.cycle.resize(known);
  return true;
}

// The pointer is only compared: the task may be gone.
bool WaitGraph::all_waits_may_end(const TaskCore* waiter, Search& search) {
  return waiter == nullptr ||
         all_may_end([&](const Edge& edge) { return edge.waiter == waiter; }, search);
}

template <class Belongs>
bool WaitGraph::all_may_end(Belongs belongs, Search& search) {
  for (const Edge& edge : edges_) {
    if (belongs(edge) && !may_end(edge, search)) return false;
  }
  return true;
}

}  // namespace keyway
