#include "runtime/wait_graph.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "base/hash_key.h"

namespace keyway {

using detail::Operation;
using detail::TaskCore;

WaitGraph::LaneId WaitGraph::lane_id(const detail::TaskOwner& owner, std::string_view key) {
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&owner));
  return hash_key(key) ^ (address * 0x9e3779b97f4a7c15U);
}

WaitGraph& WaitGraph::instance() {
  static WaitGraph* graph = new WaitGraph;
  return *graph;
}

void WaitGraph::Edge::block_this_thread() {
  blocks_ = true;
  thread_ = Scheduler::current();
  thread_id_ = ThreadContext::here().id();
  if (waiter == nullptr) kernel_thread_ = static_cast<std::uint64_t>(gettid());
}

// An operation without an id would draw it here, and the id would name the thread that writes the message.
std::string WaitGraph::Edge::waiter_name() const {
  if (waiter != nullptr) return detail::name_of(*waiter);
  if (operation->has_id()) return detail::operation_name(operation->id());
  return blocks_ ? "thread " + std::to_string(kernel_thread_) : "a coroutine outside of tasks";
}

std::string WaitGraph::Edge::target_name() const {
  if (task != nullptr) return detail::name_of(*task);
  if (lock != nullptr) return lock->name();
  if (work != nullptr) return work->name();
  return "a permit of its group, to go on";
}

const char* WaitGraph::Edge::how_to_wait_otherwise() const {
  if (work != nullptr) return work->how_to_wait_otherwise();
  if (of_several) return "submit the tasks one by one and co_await their handles";
  return WantedWork::kWaitByAwait;
}

void WaitGraph::hold_lane(WaiterNode& node) {
  if (std::exchange(node.holds_permit, true)) return;
  LaneNode& of = lanes_[node.lane];
  of.holders.push_back(node);
  of.held += node.units;
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

void WaitGraph::update_hold(WaiterNode& node) {
  const std::size_t later = node.gives_back_later() ? node.announced_give_back : 0;
  const bool gives_back = node.give_back > later;
  const bool holds = !node.lane_away && !gives_back && node.keep_permit > 0;
  holds ? hold_lane(node) : let_lane_go(node);
}

void WaitGraph::leave(WaiterNode& node, TaskCore& waiter, bool lane) {
  if (lane) set_lane_away(node, true);
  if (node.is_away()) return;
  node.comes_back.waiter = &waiter;
  node.comes_back.node_ = &node;
  node.comes_back.target_lane_ = node.lane;
}

// The return of a task that gave its lane's permits back needs room in the lane.
void WaitGraph::set_lane_away(WaiterNode& node, bool away) {
  if (std::exchange(node.lane_away, away) == away) return;
  if (away) {
    ++lanes_[node.lane].targets;
  } else {
    --lanes_.at(node.lane).targets;
    forget_lane_if_unused(node.lane);
  }
}

void WaitGraph::enter_lane_again(WaiterNode& node) {
  if (!node.is_away()) return;
  node.comes_back.waiter = nullptr;
  set_lane_away(node, false);
}

void WaitGraph::link_thread(Edge& edge) {
  if (edge.thread_ == nullptr) return;
  ThreadNode& node = threads_[{edge.thread_id_, edge.thread_}];
  if (node.edges.empty()) {
    node.scheduler = edge.thread_;
    blocked_[edge.thread_].push_back(node);
  }
  node.edges.push_back(edge);
  edge.thread_node_ = &node;
}

void WaitGraph::unlink_thread(Edge& edge) {
  if (edge.thread_node_ == nullptr) return;
  ThreadNode& node = *std::exchange(edge.thread_node_, nullptr);
  node.edges.erase(node.edges.iterator_to(edge));
  if (!node.edges.empty()) return;
  const auto of_scheduler = blocked_.find(edge.thread_);
  of_scheduler->second.erase(of_scheduler->second.iterator_to(node));
  if (of_scheduler->second.empty()) blocked_.erase(of_scheduler);
  threads_.erase({edge.thread_id_, edge.thread_});
}

void WaitGraph::link(Edge& edge) {
  edge.over_ = false;
  edges_.push_back(edge);
  if (edge.waiter != nullptr) {
    const auto [found, is_new] = waiters_.try_emplace(edge.waiter);
    WaiterNode& node = found->second;
    if (is_new) {
      node.lane = lane_id(*edge.waiter);
      node.units = edge.waiter->units();
      node.since = shrinks_;
    }
    edge.node_ = &node;
    node.edges.push_back(edge);
    if (edge.gives_back) {
      ++node.give_back;
    } else if (edge.holds_permit) {
      ++node.keep_permit;
    }
    if (edge.leaves_gate && !edge.announced) ++node.leave_gate;
    if (edge.announced) {
      ++node.announced;
      if (edge.gives_back) ++node.announced_give_back;
    } else {
      ++node.begun;
    }
    if (edge.gives_back || edge.leaves_gate) leave(node, *edge.waiter, edge.gives_back);
    update_hold(node);
  }
  if (edge.task != nullptr) {
    targets_[edge.task].push_back(edge);
    edge.target_lane_ = lane_id(*edge.task);
    ++lanes_[edge.target_lane_].targets;
  }
  link_thread(edge);
  if (edge.returns_with != nullptr) returners_.insert(edge.returns_with);
  if (is_work_of_several(edge)) link_work(edge);
  // The parent of a part draws its id no later than this: it may get the locks of another part.
  for (const Operation* one = edge.operation; one != nullptr; one = one->parent()) {
    if (one->has_id() || edge.operation->parent() != nullptr) {
      by_operation_[one->id()].insert(&edge);
    }
  }
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
  if (edge.lock != nullptr) {
    lock_targets_[edge.lock->id()].push_back(edge);
    edge.lock->linked();
  }
}

void WaitGraph::link_work(const Edge& edge) {
  for (const WantedWork::Scope& scope : edge.work->scopes()) {
    if (scope.owner != nullptr) work_edges_[lane_id(*scope.owner, scope.key)].insert(&edge);
  }
}

void WaitGraph::unlink_work(const Edge& edge) {
  for (const WantedWork::Scope& scope : edge.work->scopes()) {
    const auto found = scope.owner != nullptr ? work_edges_.find(lane_id(*scope.owner, scope.key))
                                              : work_edges_.end();
    if (found == work_edges_.end()) continue;
    found->second.erase(&edge);
    if (found->second.empty()) work_edges_.erase(found);
  }
}

// The edge does not depend on its target any more.
void WaitGraph::unlink_target(Edge& edge) {
  if (std::exchange(edge.over_, true)) return;
  if (is_work_of_several(edge)) unlink_work(edge);
  const auto leave_list = [&](auto& by_target, auto target) KEYWAY_REQUIRES(mutex_) {
    const auto waits_for_it = by_target.find(target);
    waits_for_it->second.erase(waits_for_it->second.iterator_to(edge));
    if (waits_for_it->second.empty()) by_target.erase(waits_for_it);
  };
  if (edge.task != nullptr) {
    leave_list(targets_, edge.task);
    --lanes_.at(edge.target_lane_).targets;
    forget_lane_if_unused(edge.target_lane_);
  }
  if (edge.lock != nullptr) {
    leave_list(lock_targets_, edge.lock->id());
    edge.lock->unlinked();
  }
  edge.task = nullptr;
  edge.lock = nullptr;
  edge.work = nullptr;
  if (edge.node_ == nullptr) return;
  if (edge.gives_back) {
    --edge.node_->give_back;
  } else if (edge.holds_permit) {
    --edge.node_->keep_permit;
  }
  if (edge.leaves_gate && !edge.announced) --edge.node_->leave_gate;
  if (!edge.announced) {
    --edge.node_->begun;
  } else if (edge.gives_back) {
    --edge.node_->announced_give_back;
  }
  update_hold(*edge.node_);
}

void WaitGraph::unlink(Edge& edge) {
  for (const Operation* one = edge.operation; one != nullptr; one = one->parent()) {
    if (!one->has_id()) continue;
    const auto found = by_operation_.find(one->id());
    if (found == by_operation_.end()) continue;
    found->second.erase(&edge);
    if (found->second.empty()) by_operation_.erase(found);
  }
  unlink_target(edge);
  unlink_thread(edge);
  if (edge.returns_with != nullptr) returners_.erase(returners_.find(edge.returns_with));
  if (edge.node_ != nullptr) {
    WaiterNode& node = *std::exchange(edge.node_, nullptr);
    node.edges.erase(node.edges.iterator_to(edge));
    if (edge.announced) --node.announced;
    if (node.edges.empty()) {
      let_lane_go(node);
      enter_lane_again(node);
      waiters_.erase(edge.waiter);
    }
  }
  edges_.erase(edges_.iterator_to(edge));
  edge_count_.store(edges_.size(), std::memory_order_relaxed);
}

Result<void> WaitGraph::begin(Edge& edge, TaskCore* waiter, const detail::IntendedWait& wait) {
  edge.operation = &wait.operation;
  edge.waiter = waiter;
  edge.task = wait.task;
  edge.lock = wait.lock;
  edge.work = wait.work;
  edge.bounded = wait.bounded;
  if (wait.blocks) edge.block_this_thread();
  if (wait.can_refuse) return begin(edge, wait.of_permitless);
  if (begin_unchecked(edge)) return {};
  return Error{ErrorCode::kInvalidArgument, "the wait is over before it begins"};
}

bool WaitGraph::begin_unchecked(Edge& edge) {
  MutexLock lock(mutex_);
  if (edge.task != nullptr && edge.task->done()) return false;
  link(edge);
  return true;
}

bool WaitGraph::set_over(Edge& edge) {
  MutexLock lock(mutex_);
  const bool held = edge.node_ != nullptr && edge.node_->holds_permit;
  unlink_target(edge);
  return edge.node_ != nullptr && edge.node_->holds_permit && !held;
}

void WaitGraph::end(Edge& edge) {
  std::unordered_set<LaneId> have_a_thread;
  {
    MutexLock lock(mutex_);
    if (edge.thread_node_ != nullptr) have_a_thread.swap(short_of_threads_);
    unlink(edge);
  }
  for (const LaneId lane : have_a_thread) free_what_is_stuck(lane);
}

bool WaitGraph::came_back(const TaskCore& waiter, std::uint32_t units) {
  MutexLock lock(mutex_);
  const auto found = waiters_.find(&waiter);
  if (found == waiters_.end()) return false;
  WaiterNode& node = found->second;
  if (!node.is_away() && node.units == units) return false;
  const bool lane_was_away = node.lane_away || node.units != units;
  let_lane_go(node);
  node.units = units;
  node.since = shrinks_;
  enter_lane_again(node);
  update_hold(node);
  // If another wait of the task gives the permits back, no other wait needs them for longer than a branch runs.
  return lane_was_away && node.holds_permit;
}

bool WaitGraph::leaves_again(TaskCore& waiter) {
  MutexLock lock(mutex_);
  const auto found = waiters_.find(&waiter);
  if (found == waiters_.end()) return false;
  WaiterNode& node = found->second;
  const bool gives_back = node.give_back > node.announced_give_back;
  const bool leaves_lane = gives_back && !node.lane_away;
  const auto lane = lanes_.find(node.lane);
  const bool lost_room = lane != lanes_.end() && lane->second.shrunk > node.since;
  if (gives_back || node.leave_gate > 0) leave(node, waiter, gives_back);
  return leaves_lane && lost_room;
}

bool WaitGraph::has_waits(std::uint64_t operation) {
  MutexLock lock(mutex_);
  const auto found = by_operation_.find(operation);
  return found != by_operation_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                     [](const Edge* edge) { return !edge->over_; });
}

std::string WaitGraph::waits_for(const TaskCore& waiter) {
  MutexLock lock(mutex_);
  const auto found = waiters_.find(&waiter);
  return found == waiters_.end() ? std::string() : found->second.edges.front().target_name();
}

}  // namespace keyway
