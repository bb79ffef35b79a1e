// The search: which of the linked waits can end. wait_graph.cc links them.
#include "runtime/wait_search.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/left_locks.h"
#include "runtime/linked_wait.h"

namespace keyway {

using detail::Operation;
using detail::TaskCore;

namespace {

// A suspended coroutine may have the global permit that the return needs.
bool return_needs_thread(const detail::TaskOwner& owner, const detail::TaskOwner::Need& need) {
  return need.thread || owner.has_gate();
}

}  // namespace

WaitGraph::Edge* WaitGraph::return_after(const Edge& edge) {
  WaiterNode* node = edge.node_;
  if (edge.returns_with != nullptr) {
    const auto found = waiters_.find(edge.returns_with);
    node = found != waiters_.end() ? &found->second : nullptr;
  }
  return node != nullptr && node->is_away() ? &node->comes_back : nullptr;
}

// A branch that sleeps, or has a lock and runs no more, waits for nothing but the return of its task.
WaitGraph::Edge* WaitGraph::return_of(std::uint64_t operation) {
  const TaskCore* task = detail::task_of_operation(operation);
  const auto found = task != nullptr ? waiters_.find(task) : waiters_.end();
  return found != waiters_.end() && found->second.is_away() ? &found->second.comes_back : nullptr;
}

// The wait can end, and its waiter has its permits again.
bool WaitGraph::can_go_on_after(const Edge& edge) {
  const Edge* returns = return_after(edge);
  return edge.can_end_ && (returns == nullptr || returns->can_end_);
}

void WaitGraph::add_with_return(Search& search, Edge& edge) {
  search.add(edge);
  if (Edge* returns = return_after(edge)) search.add(*returns);
}

bool WaitGraph::is_work_of_several(const Edge& edge) {
  return edge.work != nullptr && edge.work->operation() == 0;
}

std::size_t WaitGraph::blocked_threads(const Scheduler* scheduler) const {
  const auto found = blocked_.find(scheduler);
  return found == blocked_.end() ? 0 : found->second.size();
}

bool WaitGraph::threads_are_scarce(const Scheduler* scheduler) const {
  return blocked_threads(scheduler) >= scheduler->max_threads();
}

std::uint64_t WaitGraph::held_in(LaneId lane) const {
  const auto found = lanes_.find(lane);
  return found == lanes_.end() ? 0 : found->second.held;
}

// All linked waits can end. So the new edge can keep only waits from ending that depend on it: the waits for its waiter, for
// the locks of its operation and for work that includes its waiter, the waits for their waiters and locks, and so on. If
// there are few of them, and nothing else depends on them, and the target depends on none of them, then the target's own
// waits can end, and what its return needs becomes free. The target depends on one of them if it is the waiter, or if it is
// a lock that the waiter holds, or waits for, too. (A target that is work of several operations is searched.)
bool WaitGraph::closes_no_cycle(const Edge& edge) const {
  constexpr std::size_t kFew = 16;
  if (is_work_of_several(edge) || !short_of_threads_.empty()) return false;
  const std::uint64_t wanted = edge.lock != nullptr ? edge.lock->id() : 0;
  std::array<const Edge*, kFew> depend{&edge};
  std::size_t count = 1;
  const auto add_waits_for = [&](const auto& by_target, auto target) KEYWAY_REQUIRES(mutex_) {
    const auto waits = by_target.find(target);
    if (waits == by_target.end()) return true;
    if (waits->second.size() > kFew - count) return false;
    for (const Edge& wait : waits->second) depend[count++] = &wait;
    return true;
  };
  const auto add_waits_for_work_with = [&](const Edge& one) KEYWAY_REQUIRES(mutex_) {
    if (work_edges_.empty()) return true;
    const detail::TaskOwner& owner = one.waiter->owner();
    for (const LaneId scope : {lane_id(*one.waiter), lane_id(owner, {})}) {
      const auto waits = work_edges_.find(scope);
      if (waits == work_edges_.end()) continue;
      if (waits->second.size() > kFew) return false;
      for (const Edge* wait : waits->second) {
        const auto end = depend.begin() + static_cast<std::ptrdiff_t>(count);
        if (!wait->work->includes(one.waiter, one.work)) continue;
        if (std::find(depend.begin(), end, wait) != end) continue;
        if (count == kFew) return false;
        depend[count++] = wait;
      }
    }
    return true;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const Edge& one = *depend[i];
    // The waiter of an announced wait runs, so it may take another lock at any time.
    if (one.announced && i > 0) return false;
    if (!only_waits_for_waiter_depend_on(one)) return false;
    if (one.lock != nullptr && i > 0 && one.lock->id() == wanted) return false;
    for (const Operation* part = one.operation; part != nullptr; part = part->parent()) {
      Operation::LockIds locks;
      const std::optional<std::uint32_t> held = part->known_locks(locks);
      if (!held) return false;
      for (std::uint32_t at = 0; at < *held; ++at) {
        if (locks[at] == wanted || !add_waits_for(lock_targets_, locks[at])) return false;
      }
    }
    if (one.waiter == nullptr) continue;
    if (one.waiter == edge.task || !add_waits_for(targets_, one.waiter)) return false;
    if (!add_waits_for_work_with(one)) return false;
  }
  return true;
}

bool WaitGraph::only_waits_for_waiter_depend_on(const Edge& edge) const {
  if (edge.operation->is_in_race()) return false;  // accepted waits count on it as a free rival
  if (edge.waiter != nullptr && detail::LeftLocks::has(*edge.waiter)) return false;
  if (edge.thread_ != nullptr && threads_are_scarce(edge.thread_)) return false;
  bool parts_lock = false;
  for (const Operation* one = edge.operation; one != nullptr; one = one->parent()) {
    if (one->is_awaited) return false;
    parts_lock = parts_lock || one->parts_lock();
  }
  const WaiterNode* node = edge.node_;
  if (node == nullptr) return true;
  if (returners_.contains(edge.waiter)) return false;
  // Waits for the locks of its task's other branches depend on the return of the task.
  if (parts_lock && node->is_away() && !can_come_back_at_once(*node)) return false;
  return !node->holds_permit || !others_need_room(*node, *edge.waiter);
}

bool WaitGraph::others_need_room(const WaiterNode& node, TaskCore& waiter) const {
  const auto waits_for_it = targets_.find(&waiter);
  const std::size_t for_it = waits_for_it == targets_.end() ? 0 : waits_for_it->second.size();
  if (lanes_.at(node.lane).targets == for_it) return false;
  return waiter.owner().need(waiter).limit != detail::TaskOwner::Need::kUnlimited;
}

bool WaitGraph::can_come_back_at_once(const WaiterNode& node) const {
  TaskCore& waiter = *node.comes_back.waiter;
  const detail::TaskOwner::Need need = waiter.owner().need(waiter);
  const bool needs_room = need.room > 0 && !node.holds_permit;
  if (needs_room && held_in(node.comes_back.target_lane_) + need.room > need.limit) return false;
  return !return_needs_thread(waiter.owner(), need) ||
         !threads_are_scarce(&waiter.owner().scheduler());
}

bool WaitGraph::can_end_at_once(Edge& edge) {
  if (edge.node_ != nullptr && edge.node_->is_away() && !can_come_back_at_once(*edge.node_)) {
    return false;
  }
  if (edge.bounded) return true;
  if (edge.task == nullptr) return false;
  if (edge.task->done()) return true;
  if (waiters_.contains(edge.task)) return false;
  const detail::TaskOwner::Need need = edge.task->owner().need(*edge.task);
  if (need.room > 0 && held_in(edge.target_lane_) + need.room > need.limit) return false;
  return !need.thread || !threads_are_scarce(&edge.task->owner().scheduler());
}

// The first branch of when_any() to end asks the others to stop, and an await ends on a stop
// request. The request reaches neither a thread that blocks in a branch, nor a coroutine that
// sync_wait() runs there, nor another task.
bool WaitGraph::find_rivals(const Edge& edge, std::vector<std::vector<Edge*>>& rivals) const {
  if (edge.blocks_a_thread()) return false;
  for (const Operation* branch = edge.operation; branch != nullptr; branch = branch->parent()) {
    if (branch->is_awaited || branch->task() != edge.operation->task()) return false;
    if (branch->race_branches == 0) continue;
    const Operation& whole = *branch->parent();
    const std::unordered_set<Edge*>& waits_of_whole = by_operation_.at(whole.id());
    // Even if each of them is in another branch, one branch does not wait.
    if (waits_of_whole.size() < branch->race_branches) return true;
    std::unordered_map<const Operation*, std::vector<Edge*>> waits_of;
    for (Edge* other : waits_of_whole) {
      const Operation* rival = other->operation;
      while (rival != &whole && rival->parent() != &whole) rival = rival->parent();
      if (rival != &whole && rival != branch) waits_of[rival].push_back(other);
    }
    if (waits_of.size() + 1 < branch->race_branches) return true;
    for (auto& [rival, waits] : waits_of) rivals.push_back(std::move(waits));
  }
  return false;
}

// Counts the scheduler's blocked threads, and adds their waits.
void WaitGraph::add_threads(Search& search, const Scheduler& scheduler) {
  if (!search.stuck_threads.emplace(&scheduler, blocked_threads(&scheduler)).second) return;
  const auto blocked = blocked_.find(&scheduler);
  if (blocked == blocked_.end()) return;
  for (ThreadNode& thread : blocked->second) {
    search.open_in_thread.emplace(&thread, thread.edges.size());
    for (Edge& edge : thread.edges) add_with_return(search, edge);
  }
}

// How many waits of a task must end before it lets go of the permits that it holds.
std::size_t WaitGraph::waits_before_release(const WaiterNode& node) {
  return node.edges.size() - (node.gives_back_later() ? node.announced : 0);
}

// Adds the edges that the nodes depend on, directly or through other edges.
void WaitGraph::explore(Search& search) {
  // Makes `node` depend on the wait, and on the return of its waiter.
  const auto depend_on = [&](Search::Node& node, Edge& edge) KEYWAY_REQUIRES(mutex_) {
    node.all_must_end.push_back(&edge);
    if (Edge* returns = return_after(edge)) node.all_must_end.push_back(returns);
  };
  const auto depend_on_parts = [&](Search::Node& node, std::uint64_t operation)
                                   KEYWAY_REQUIRES(mutex_) {
                                     if (Edge* returns = return_of(operation)) {
                                       node.all_must_end.push_back(returns);
                                     }
                                     const auto found = by_operation_.find(operation);
                                     if (found == by_operation_.end()) return;
                                     for (Edge* part : found->second) {
                                       if (part != node.edge) depend_on(node, *part);
                                     }
                                   };
  const auto depend_on_ending = [&](Search::Node& node,
                                    std::uint64_t operation) KEYWAY_REQUIRES(mutex_) {
    const auto found = waiters_.find(detail::LeftLocks::task_of(operation));
    if (found == waiters_.end()) return;
    for (Edge& wait : found->second.edges) depend_on(node, wait);
  };
  // All coroutines of an InlineRun stand still while one of them blocks its thread.
  const auto depend_on_thread_of_run = [&](Search::Node& node,
                                           std::uint64_t operation) KEYWAY_REQUIRES(mutex_) {
    const std::uint64_t run = detail::inline_run_of(operation);
    const auto found = run != 0 ? by_operation_.find(run) : by_operation_.end();
    if (found == by_operation_.end()) return;
    for (Edge* part : found->second) {
      if (part->blocks_a_thread()) depend_on(node, *part);
    }
  };
  const auto need_thread = [&](Search::Node& node, const Scheduler& scheduler)
                               KEYWAY_REQUIRES(mutex_) {
                                 if (threads_are_scarce(&scheduler))
                                   node.threads.push_back(&scheduler);
                               };
  for (std::size_t i = 0; i < search.nodes.size(); ++i) {
    Search::Node node = std::move(search.nodes[i]);  // the vector grows below
    Edge& edge = *node.edge;
    const Edge* returns = return_after(edge);
    if (returns != nullptr && returns != &edge) search.return_with[returns].push_back(&edge);
    if (edge.node_ != nullptr) search.open.emplace(edge.node_, waits_before_release(*edge.node_));
    node.has_free_rival = find_rivals(edge, node.rivals);
    if (node.ends_by_itself()) {
      search.nodes[i] = std::move(node);
      continue;
    }
    if (edge.node_ != nullptr && &edge == &edge.node_->comes_back) {
      detail::TaskOwner& owner = edge.waiter->owner();
      node.need = owner.need(*edge.waiter);
      if (edge.node_->holds_permit) node.need.room = 0;  // it keeps its lane's permits
      if (return_needs_thread(owner, node.need)) need_thread(node, owner.scheduler());
    } else if (edge.task != nullptr) {
      detail::TaskOwner& owner = edge.task->owner();
      if (const auto found = waiters_.find(edge.task); found != waiters_.end()) {
        for (Edge& of_target : found->second.edges) depend_on(node, of_target);
      }
      node.need = owner.need(*edge.task);
      if (node.need.thread) need_thread(node, owner.scheduler());
    } else if (edge.lock != nullptr) {
      for (const std::uint64_t holder : edge.lock->in_the_way_of(*edge.operation)) {
        depend_on_parts(node, holder);
        depend_on_thread_of_run(node, holder);
        depend_on_ending(node, holder);
        if (Scheduler* scheduler = detail::scheduler_that_resumes(holder)) {
          need_thread(node, *scheduler);
        }
      }
    } else {
      if (const std::uint64_t operation = edge.work->operation(); operation != 0) {
        depend_on_parts(node, operation);
      } else {
        for (Edge& other : edges_) {
          if (&other != &edge && edge.work->includes(other.waiter, other.work)) {
            depend_on(node, other);
          }
        }
      }
      if (const Scheduler* scheduler = edge.work->scheduler()) need_thread(node, *scheduler);
    }
    for (Edge* dependency : node.all_must_end) search.add(*dependency);
    for (const std::vector<Edge*>& rival : node.rivals) {
      for (Edge* wait : rival) add_with_return(search, *wait);
    }
    if (node.need.room > 0 &&
        search.stuck_permits.emplace(node.edge->target_lane_, held_in(node.edge->target_lane_))
            .second) {
      if (const auto lane = lanes_.find(node.edge->target_lane_); lane != lanes_.end()) {
        for (WaiterNode& holder : lane->second.holders) {
          for (Edge& held : holder.edges) search.add(held);
        }
      }
    }
    for (const Scheduler* scheduler : node.threads) add_threads(search, *scheduler);
    search.nodes[i] = std::move(node);
  }
}

// Marks the edges that can end. It visits the nodes backwards, so a chain of waits takes one pass.
void WaitGraph::settle(Search& search) {
  const auto has_rival_that_ends = [&](const Search::Node& node) KEYWAY_REQUIRES(mutex_) {
    for (const std::vector<Edge*>& rival : node.rivals) {
      bool ends = true;
      for (const Edge* wait : rival) ends = ends && can_go_on_after(*wait);
      if (ends) return true;
    }
    return false;
  };
  const auto can_end = [&](const Search::Node& node) KEYWAY_REQUIRES(mutex_) {
    const Edge& edge = *node.edge;
    if (node.ends_by_itself() || has_rival_that_ends(node)) return true;
    for (const Edge* dependency : node.all_must_end) {
      if (!dependency->can_end_) return false;
    }
    if (node.need.room > 0 &&
        search.stuck_permits[edge.target_lane_] + node.need.room > node.need.limit) {
      return false;
    }
    return std::none_of(node.threads.begin(), node.threads.end(), [&](const Scheduler* scheduler) {
      return search.stuck_threads[scheduler] >= scheduler->max_threads();
    });
  };
  // A thread is free when its wait has ended and, if the task gave permits back, when the task has
  // them again.
  const auto mark = [&](Edge& edge) KEYWAY_REQUIRES(mutex_) {
    edge.can_end_ = true;
    WaiterNode* node = edge.node_;
    if (node != nullptr && &edge == &node->comes_back) {
      for (const Edge* wait : search.return_with[&edge]) {
        if (wait->can_end_) search.let_thread_go(*wait);
      }
      return;
    }
    if (const Edge* returns = return_after(edge); returns == nullptr || returns->can_end_) {
      search.let_thread_go(edge);
    }
    if (node == nullptr || (edge.announced && node->gives_back_later())) return;
    if (--search.open[node] > 0 || !node->holds_permit) return;
    const auto lane = search.stuck_permits.find(node->lane);
    if (lane != search.stuck_permits.end()) lane->second -= node->units;
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto node = search.nodes.rbegin(); node != search.nodes.rend(); ++node) {
      if (node->edge->can_end_ || !can_end(*node)) continue;
      mark(*node->edge);
      changed = true;
    }
  }
}

Result<void> WaitGraph::begin(Edge& edge, const WaitEdges* others) {
  MutexLock lock(mutex_);
  const auto known = waiters_.find(edge.waiter);
  const bool was_away = known != waiters_.end() && known->second.is_away();
  const bool lane_was_away = was_away && known->second.lane_away;
  link(edge);
  std::optional<Error> refused;
  const bool is_alone = others == nullptr || others->all().empty();
  if (!is_alone || (!closes_no_cycle(edge) && !can_end_at_once(edge))) {
    Search search(++searches_);
    add_with_return(search, edge);
    if (!is_alone) {
      for (const auto& other : others->all()) add_with_return(search, *other);
    }
    explore(search);
    settle(search);
    if (!can_go_on_after(edge)) refused = refuse(edge, search);
    for (std::size_t i = 0; !is_alone && !refused && i < others->all().size(); ++i) {
      const Edge& other = *others->all()[i];
      if (!can_go_on_after(other)) refused = refuse(other, search);
    }
  }
  // The check was made as if the waiter had given its permits back. An announced wait will give the global one back, and
  // need a thread to return: later checks must know.
  if (edge.node_ != nullptr && (refused || edge.announced)) {
    if (!was_away && (refused || !edge.leaves_gate)) enter_lane_again(*edge.node_);
    set_lane_away(*edge.node_, lane_was_away);
    update_hold(*edge.node_);
  }
  if (!refused) return {};
  unlink(edge);
  return *std::move(refused);
}

// If the waits of the parts of `holder` cannot end, a wait for one of its locks is to blame.
std::optional<WantedLock::Granted> WaitGraph::refuse_a_wait_for(std::uint64_t holder) {
  const auto parts = by_operation_.find(holder);
  if (parts == by_operation_.end()) return std::nullopt;
  Search search(++searches_);
  for (Edge* part : parts->second) add_with_return(search, *part);
  explore(search);
  settle(search);
  const auto waits_for_holder = [&](const Edge& edge) {
    if (edge.lock == nullptr || edge.can_end_) return false;
    const std::vector<std::uint64_t> holders = edge.lock->in_the_way_of(*edge.operation);
    return std::find(holders.begin(), holders.end(), holder) != holders.end();
  };
  bool any_stuck = false;
  for (const Edge* part : parts->second) {
    if (part->can_end_) continue;
    any_stuck = true;
    const Scheduler* short_of = nullptr;
    for (const Edge* edge : find_cycle(*part, search, short_of)) {
      if (waits_for_holder(*edge)) return edge->lock->refuse(refuse(*edge, search));
    }
  }
  // Several waiters may keep permits from a part, and the cycle above goes through one of them only.
  for (std::size_t i = 0; any_stuck && i < search.nodes.size(); ++i) {
    const Edge& edge = *search.nodes[i].edge;
    if (waits_for_holder(edge)) return edge.lock->refuse(refuse(edge, search));
  }
  return std::nullopt;
}

void WaitGraph::locks_passed_on(std::uint64_t operation) {
  std::vector<WantedLock::Granted> to_tell;
  {
    MutexLock lock(mutex_);
    const auto found = by_operation_.find(operation);
    if (found == by_operation_.end()) return;
    for (const Edge* part : found->second) {
      if (part->lock != nullptr) to_tell.push_back(part->lock->look_again());
    }
    while (const auto refused = refuse_a_wait_for(operation)) to_tell.push_back(*refused);
  }
  for (const WantedLock::Granted& chain : to_tell) chain.tell(chain.first);
}

// The waiters that hold permits of `lane`, can give them back, and have a wait that cannot end.
WaitGraph::StuckHolders WaitGraph::find_stuck_holders(LaneId lane) {
  StuckHolders stuck;
  const auto found = lanes_.find(lane);
  if (found == lanes_.end() || found->second.holders.empty()) return stuck;
  Search search(++searches_);
  for (WaiterNode& holder : found->second.holders) {
    for (Edge& edge : holder.edges) search.add(edge);
  }
  explore(search);
  settle(search);
  for (WaiterNode& holder : found->second.holders) {
    const bool is_stuck =
        std::any_of(holder.edges.begin(), holder.edges.end(),
                    [](const Edge& edge) { return !edge.can_end_ && edge.can_give_back; });
    if (is_stuck) stuck.nodes.push_back(&holder);
  }
  for (const Search::Node& node : search.nodes) {
    if (node.edge->can_end_ || node.need.room == 0 || node.edge->target_lane_ != lane) continue;
    const std::uint64_t needed = search.stuck_permits.at(lane) + node.need.room;
    if (needed > node.need.limit) stuck.lacking = std::min(stuck.lacking, needed - node.need.limit);
  }
  return stuck;
}

// Lets the waiter leave its lane if a thread comes free for its return. That cannot be its own thread: a wait that blocks a
// thread frees it after the return.
bool WaitGraph::leave_lane_if_it_can_return(WaiterNode& node) {
  TaskCore& waiter = *node.edges.front().waiter;
  const Scheduler& scheduler = waiter.owner().scheduler();
  const bool was_away = node.is_away();
  leave(node, waiter, /*lane=*/true);
  let_lane_go(node);
  if (!threads_are_scarce(&scheduler)) return true;
  Search search(++searches_);
  for (Edge& edge : node.edges) add_with_return(search, edge);
  add_threads(search, scheduler);
  explore(search);
  settle(search);
  if (search.stuck_threads.at(&scheduler) < scheduler.max_threads()) return true;
  if (!was_away) enter_lane_again(node);
  set_lane_away(node, false);
  update_hold(node);
  return false;
}

// Only waiters that hold permits of `lane` can keep its other tasks from running.
bool WaitGraph::free_what_is_stuck(LaneId lane) {
  bool any = false;
  std::vector<std::pair<Scheduler*, Runnable*>> to_post;
  {
    MutexLock lock(mutex_);
    if (const auto found = lanes_.find(lane); found != lanes_.end()) {
      found->second.shrunk = ++shrinks_;
    }
    bool changed = true;
    while (std::exchange(changed, false)) {
      const StuckHolders stuck = find_stuck_holders(lane);
      std::uint64_t freed = 0;
      for (WaiterNode* holder : stuck.nodes) {
        if (freed >= stuck.lacking) break;  // other waits may be able to end now
        if (!leave_lane_if_it_can_return(*holder)) {
          short_of_threads_.insert(lane);
          continue;
        }
        TaskCore& waiter = *holder->edges.front().waiter;
        if (Runnable* runnable = waiter.owner().give_back_permit(waiter)) {
          to_post.emplace_back(&waiter.owner().scheduler(), runnable);
        }
        freed += holder->units;
        any = changed = true;
      }
    }
  }
  for (const auto& [scheduler, runnable] : to_post) scheduler->post_from_outside(*runnable);
  return any;
}

}  // namespace keyway
