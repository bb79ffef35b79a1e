#include "runtime/wait_graph.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/hash_key.h"

namespace keyway {

using detail::Operation;
using detail::TaskCore;

namespace {

std::string name_of_target(const WaitGraph::Edge& edge) {
  if (edge.task != nullptr) return detail::name_of(*edge.task);
  return edge.lock != nullptr ? edge.lock->name() : edge.work->name();
}

std::string name_of_waiter(const WaitGraph::Edge& edge) {
  return edge.waiter != nullptr ? detail::name_of(*edge.waiter)
                                : detail::operation_name(edge.operation->id());
}

// `cycle`: the refused wait first. `short_of_threads`: of this scheduler.
Error refusal(const std::vector<const WaitGraph::Edge*>& cycle, const Scheduler* short_of_threads) {
  const WaitGraph::Edge& refused = *cycle.front();
  std::string message = "waiting for " + name_of_target(refused) + " would never end: ";
  bool locks = false;
  for (const WaitGraph::Edge* edge : cycle) {
    if (edge != &refused) message += "; ";
    message += name_of_waiter(*edge) + " waits for " + name_of_target(*edge);
    locks = locks || edge->lock != nullptr;
  }
  if (short_of_threads != nullptr) {
    const std::size_t threads = short_of_threads->max_threads();
    message += "; no thread would be left to run it, of " + std::to_string(threads) +
               "; wait by co_await, or give the scheduler more threads";
    return {ErrorCode::kNoThread, std::move(message)};
  }
  message += locks ? "; take the keys in one order everywhere, or by lock_all()"
                   : "; take the result after this task, or use other keys";
  return {ErrorCode::kWaitCycle, std::move(message)};
}

}  // namespace

// What follows from the waits that are looked at. An edge can end once everything it depends on can.
struct WaitGraph::Search {
  struct Node {
    Edge* edge;
    detail::TaskOwner::Need need{};  // of its task
    std::vector<Edge*>
        all_must_end{};  // the waits of its target, of the lock's holders, of the work's parts
    std::vector<const Scheduler*> threads{};  // each of which must have one
  };

  explicit Search(std::uint64_t search_number) : number(search_number) {}

  void add(Edge& edge) {
    if (edge.seen == number) return;
    edge.seen = number;
    edge.can_end = false;
    nodes.push_back({&edge});
  }

  const std::uint64_t number;
  std::vector<Node> nodes;
  // Of lanes and schedulers that were looked into: what is held by waits that are not known to end.
  std::unordered_map<LaneId, std::uint64_t> stuck_permits;
  std::unordered_map<const Scheduler*, std::uint64_t> stuck_threads;
  std::unordered_map<const WaiterNode*, std::size_t> open;  // edges not known to end
};

WaitGraph::LaneId WaitGraph::lane_id(const detail::TaskOwner& owner, std::string_view key) {
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&owner));
  return hash_key(key) ^ (address * 0x9e3779b97f4a7c15U);
}

WaitGraph& WaitGraph::instance() {
  static WaitGraph* graph = new WaitGraph;
  return *graph;
}

// ---- edges come and go

void WaitGraph::hold_lane(WaiterNode& node, LaneId lane, std::uint32_t units) {
  if (node.holds_permit) return;
  node.holds_permit = true;
  node.lane = lane;
  node.units = units;
  LaneNode& of = lanes_[lane];
  of.holders.push_back(node);
  of.held += units;
}

void WaitGraph::let_lane_go(WaiterNode& node) {
  if (!node.holds_permit) return;
  node.holds_permit = false;
  LaneNode& of = lanes_.at(node.lane);
  of.holders.erase(of.holders.iterator_to(node));
  of.held -= node.units;
  forget_lane_if_unused(node.lane);
}

void WaitGraph::forget_lane_if_unused(LaneId lane) {
  const auto found = lanes_.find(lane);
  if (found != lanes_.end() && found->second.unused()) lanes_.erase(found);
}

void WaitGraph::link(Edge& edge) {
  edges_.push_back(edge);
  if (edge.waiter != nullptr) {
    WaiterNode& node = waiters_[edge.waiter];
    edge.node = &node;
    node.edges.push_back(edge);
    if (edge.holds_permit) {
      hold_lane(node, lane_id(*edge.waiter), edge.waiter->units());
    } else {
      let_lane_go(node);
    }
  }
  if (edge.task != nullptr) {
    edge.ends_with = edge.task->owner().ends_with(*edge.task);
    ++targets_[edge.ends_with];
    edge.target_lane = lane_id(*edge.task);
    ++lanes_[edge.target_lane].targets;
  }
  if (edge.thread != nullptr) threads_[edge.thread].push_back(edge);
  if (edge.work != nullptr) ++work_edges_;
  for (const Operation* one = edge.operation; one != nullptr; one = one->parent()) {
    if (one->has_id()) by_operation_[one->id()].insert(&edge);
  }
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
}

void WaitGraph::unlink(Edge& edge) {
  for (const Operation* one = edge.operation; one != nullptr; one = one->parent()) {
    if (!one->has_id()) continue;
    const auto found = by_operation_.find(one->id());
    if (found == by_operation_.end()) continue;
    found->second.erase(&edge);
    if (found->second.empty()) by_operation_.erase(found);
  }
  if (edge.work != nullptr) --work_edges_;
  if (edge.thread != nullptr) {
    const auto found = threads_.find(edge.thread);
    found->second.erase(found->second.iterator_to(edge));
    if (found->second.empty()) threads_.erase(found);
  }
  if (edge.task != nullptr) {
    const auto found = targets_.find(edge.ends_with);
    if (--found->second == 0) targets_.erase(found);
    --lanes_.at(edge.target_lane).targets;
    forget_lane_if_unused(edge.target_lane);
  }
  if (edge.node != nullptr) {
    WaiterNode& node = *edge.node;
    node.edges.erase(node.edges.iterator_to(edge));
    if (node.edges.empty()) {
      let_lane_go(node);
      waiters_.erase(edge.waiter);
    }
    edge.node = nullptr;
  }
  edges_.erase(edges_.iterator_to(edge));
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
}

Result<void> WaitGraph::begin(Edge& edge) {
  MutexLock lock(mutex_);
  link(edge);
  if (nothing_depends_on(edge) || can_end_at_once(edge)) return {};
  Search search(++searches_);
  search.add(edge);
  explore(search);
  settle(search);
  if (edge.can_end) return {};

  // From each wait that cannot end to one that it depends on, until it closes.
  std::vector<const Edge*> cycle;
  const Scheduler* short_of = nullptr;
  std::unordered_map<const Edge*, const Search::Node*> nodes;
  for (const Search::Node& node : search.nodes) nodes.emplace(node.edge, &node);
  const Edge* next = &edge;
  while (next != nullptr && std::find(cycle.begin(), cycle.end(), next) == cycle.end()) {
    cycle.push_back(next);
    const Search::Node& node = *nodes.at(std::exchange(next, nullptr));
    for (const Edge* dependency : node.all_must_end) {
      if (next == nullptr && !dependency->can_end) next = dependency;
    }
    const auto lane = node.need.room > 0 ? lanes_.find(node.edge->target_lane) : lanes_.end();
    if (next == nullptr && lane != lanes_.end() &&
        search.stuck_permits[node.edge->target_lane] + node.need.room > node.need.limit) {
      for (const WaiterNode& holder : lane->second.holders) {
        for (const Edge& held : holder.edges) {
          if (next == nullptr && !held.can_end) next = &held;
        }
      }
    }
    for (const Scheduler* scheduler : node.threads) {
      if (next != nullptr || search.stuck_threads[scheduler] < scheduler->max_threads()) continue;
      short_of = scheduler;
      for (const Edge& blocked : threads_.at(scheduler)) {
        if (!blocked.can_end && std::find(cycle.begin(), cycle.end(), &blocked) == cycle.end()) {
          next = &blocked;
          break;
        }
      }
    }
  }
  Error error = refusal(cycle, short_of);
  unlink(edge);
  return error;
}

void WaitGraph::begin_unchecked(Edge& edge) {
  MutexLock lock(mutex_);
  link(edge);
}

void WaitGraph::end(Edge& edge) {
  MutexLock lock(mutex_);
  unlink(edge);
}

std::string WaitGraph::waits_for(const TaskCore& waiter) {
  MutexLock lock(mutex_);
  const auto found = waiters_.find(&waiter);
  return found == waiters_.end() ? std::string() : name_of_target(found->second.edges.front());
}

// ---- which waits can end

std::size_t WaitGraph::blocked_threads(const Scheduler* scheduler) const {
  const auto found = threads_.find(scheduler);
  return found == threads_.end() ? 0 : found->second.size();
}

bool WaitGraph::threads_are_scarce(const Scheduler* scheduler) const {
  return blocked_threads(scheduler) >= scheduler->max_threads();
}

std::uint64_t WaitGraph::held_in(LaneId lane) const {
  const auto found = lanes_.find(lane);
  return found == lanes_.end() ? 0 : found->second.held;
}

// If so, its wait keeps nothing else from ending; and all other waits can end, so its target's can.
bool WaitGraph::nothing_depends_on(const Edge& edge) const {
  if (work_edges_ > 0) return false;
  if (edge.thread != nullptr && threads_are_scarce(edge.thread)) return false;
  for (const Operation* one = edge.operation; one != nullptr; one = one->parent()) {
    if (one->has_id()) return false;  // it may hold locks
  }
  if (edge.node == nullptr) return true;
  if (targets_.contains(edge.waiter)) return false;
  return !edge.node->holds_permit || lanes_.at(edge.node->lane).targets == 0;
}

bool WaitGraph::can_end_at_once(Edge& edge) {
  if (edge.bounded) return true;
  if (edge.task == nullptr) return false;
  if (edge.task->done()) return true;
  if (waiters_.contains(edge.ends_with)) return false;
  const detail::TaskOwner::Need need = edge.task->owner().need(*edge.task);
  if (need.room > 0 && held_in(edge.target_lane) + need.room > need.limit) return false;
  return !need.thread || !threads_are_scarce(&edge.task->owner().scheduler());
}

// Finds what the edges depend on, and what those depend on.
void WaitGraph::explore(Search& search) {
  const auto add_node = [&](Search::Node& node, WaiterNode& waiter) {
    for (Edge& edge : waiter.edges) node.all_must_end.push_back(&edge);
    search.open.emplace(&waiter, waiter.edges.size());
  };
  const auto need_thread = [&](Search::Node& node, const Scheduler& scheduler)
                               KEYWAY_REQUIRES(mutex_) {
                                 if (threads_are_scarce(&scheduler))
                                   node.threads.push_back(&scheduler);
                               };
  for (std::size_t i = 0; i < search.nodes.size(); ++i) {
    Search::Node node = std::move(search.nodes[i]);  // the vector grows below
    Edge& edge = *node.edge;
    if (edge.node != nullptr) search.open.emplace(edge.node, edge.node->edges.size());
    if (edge.bounded || (edge.task != nullptr && edge.task->done())) {
      search.nodes[i] = std::move(node);
      continue;
    }
    if (edge.task != nullptr) {
      detail::TaskOwner& owner = edge.task->owner();
      if (const auto found = waiters_.find(edge.ends_with); found != waiters_.end()) {
        add_node(node, found->second);
      }
      node.need = owner.need(*edge.task);
      if (node.need.thread) need_thread(node, owner.scheduler());
    } else if (edge.lock != nullptr) {
      for (const std::uint64_t holder : edge.lock->in_the_way_of(*edge.operation)) {
        if (const auto found = by_operation_.find(holder); found != by_operation_.end()) {
          node.all_must_end.insert(node.all_must_end.end(), found->second.begin(),
                                   found->second.end());
        }
        if (Scheduler* scheduler = detail::scheduler_that_resumes(holder)) {
          need_thread(node, *scheduler);
        }
      }
    } else {
      for (Edge& other : edges_) {
        if (&other != &edge && edge.work->includes(*other.operation, other.waiter, other.work)) {
          node.all_must_end.push_back(&other);
        }
      }
      if (const Scheduler* scheduler = edge.work->scheduler()) need_thread(node, *scheduler);
    }
    for (Edge* dependency : node.all_must_end) search.add(*dependency);
    if (node.need.room > 0 &&
        search.stuck_permits.emplace(node.edge->target_lane, held_in(node.edge->target_lane))
            .second) {
      if (const auto lane = lanes_.find(node.edge->target_lane); lane != lanes_.end()) {
        for (WaiterNode& holder : lane->second.holders) {
          for (Edge& held : holder.edges) search.add(held);
        }
      }
    }
    for (const Scheduler* scheduler : node.threads) {
      if (!search.stuck_threads.emplace(scheduler, blocked_threads(scheduler)).second) continue;
      for (Edge& blocked : threads_.at(scheduler)) search.add(blocked);
    }
    search.nodes[i] = std::move(node);
  }
}

// Marks the edges that can end. Backwards, so that a chain takes one pass.
void WaitGraph::settle(Search& search) {
  const auto can_end = [&](const Search::Node& node) {
    if (node.edge->bounded || (node.edge->task != nullptr && node.edge->task->done())) return true;
    for (const Edge* dependency : node.all_must_end) {
      if (!dependency->can_end) return false;
    }
    if (node.need.room > 0 &&
        search.stuck_permits[node.edge->target_lane] + node.need.room > node.need.limit) {
      return false;
    }
    return std::none_of(node.threads.begin(), node.threads.end(), [&](const Scheduler* scheduler) {
      return search.stuck_threads[scheduler] >= scheduler->max_threads();
    });
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto node = search.nodes.rbegin(); node != search.nodes.rend(); ++node) {
      Edge& edge = *node->edge;
      if (edge.can_end || !can_end(*node)) continue;
      edge.can_end = true;
      changed = true;
      if (edge.node != nullptr && --search.open[edge.node] == 0 && edge.node->holds_permit) {
        const auto lane = search.stuck_permits.find(edge.node->lane);
        if (lane != search.stuck_permits.end()) lane->second -= edge.node->units;
      }
      const auto threads = search.stuck_threads.find(edge.thread);
      if (threads != search.stuck_threads.end()) --threads->second;
    }
  }
}

// Only waiters in this lane can be in the way of others there.
bool WaitGraph::free_what_is_stuck(LaneId lane) {
  bool any = false;
  std::vector<std::pair<Scheduler*, Runnable*>> to_post;
  {
    MutexLock lock(mutex_);
    while (true) {
      const auto found = lanes_.find(lane);
      if (found == lanes_.end() || found->second.holders.empty()) break;
      Search search(++searches_);
      for (WaiterNode& holder : found->second.holders) {
        for (Edge& edge : holder.edges) search.add(edge);
      }
      explore(search);
      settle(search);
      const auto is_stuck = [](const Edge& edge) { return !edge.can_end && edge.can_give_back; };
      const auto stuck = std::find_if(
          found->second.holders.begin(), found->second.holders.end(), [&](const WaiterNode& one) {
            return std::any_of(one.edges.begin(), one.edges.end(), is_stuck);
          });
      if (stuck == found->second.holders.end()) break;
      TaskCore& waiter = *stuck->edges.front().waiter;
      if (Runnable* runnable = waiter.owner().give_back_permit(waiter)) {
        to_post.emplace_back(&waiter.owner().scheduler(), runnable);
      }
      let_lane_go(*stuck);
      any = true;
    }
  }
  for (const auto& [scheduler, runnable] : to_post) scheduler->post(*runnable);
  return any;
}

}  // namespace keyway
