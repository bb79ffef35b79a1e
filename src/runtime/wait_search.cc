// The search: which of the linked waits can end. wait_graph.cc links them.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/linked_wait.h"
#include "runtime/wait_graph.h"

namespace keyway {

using detail::Operation;
using detail::TaskCore;

namespace {

std::string name_of_waiter(const WaitGraph::Edge& edge) {
  return edge.waiter != nullptr ? detail::name_of(*edge.waiter)
                                : detail::operation_name(edge.operation->id());
}

// A suspended coroutine may have the global permit that the return needs.
bool return_needs_thread(const detail::TaskOwner& owner, const detail::TaskOwner::Need& need) {
  return need.thread || owner.has_gate();
}

// Whether the waiter shares the lock that it wants for itself, as seen by another operation of the cycle.
bool is_upgrade(const WaitGraph::Edge& edge, const Operation& other) {
  if (edge.lock == nullptr) return false;
  const std::vector<std::uint64_t> holders = edge.lock->in_the_way_of(other);
  return std::any_of(holders.begin(), holders.end(),
                     [&](std::uint64_t holder) { return edge.operation->is_within(holder); });
}

// Key: a wait that needs a permit. Value: a wait of the task that holds the permit.
using PermitHolders = std::unordered_map<const WaitGraph::Edge*, const WaitGraph::Edge*>;

// `cycle`: begins with the refused wait. `short_of_threads`: the scheduler without a free thread,
// or null.
Error refusal(const std::vector<const WaitGraph::Edge*>& cycle, const PermitHolders& holders,
              const Scheduler* short_of_threads) {
  constexpr std::size_t kNamed = 8;  // a chain may be very long
  const WaitGraph::Edge& refused = *cycle.front();
  std::string message = "waiting for " + refused.target_name() + " would never end: ";
  std::size_t locks = 0;
  bool upgrades = false;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const WaitGraph::Edge& edge = *cycle[i];
    if (edge.lock != nullptr) ++locks;
    upgrades = upgrades || is_upgrade(edge, *cycle[(i + 1) % cycle.size()]->operation);
    if (i == kNamed) message += "; and " + std::to_string(cycle.size() - kNamed) + " more";
    if (i >= kNamed) continue;
    if (i > 0) message += "; ";
    message += name_of_waiter(edge) + " waits for " + edge.target_name();
    if (const auto holder = holders.find(&edge); holder != holders.end()) {
      message += edge.task != nullptr ? ", which needs a permit that " : ", which ";
      message += name_of_waiter(*holder->second) + " holds";
    }
  }
  if (short_of_threads != nullptr) {
    const std::size_t threads = short_of_threads->max_threads();
    message += "; no thread would be left to run it, because " +
               (threads == 1 ? "the only thread" : "all " + std::to_string(threads) + " threads") +
               " would wait; wait by co_await, or " + short_of_threads->how_to_get_more_threads();
    return {ErrorCode::kNoThread, std::move(message)};
  }
  if (locks == cycle.size() && upgrades) {
    message +=
        "; a reader that is to write must lock the key exclusively from the beginning, or release "
        "it before";
  } else if (locks == cycle.size()) {
    message += "; take the keys in one order everywhere, or by lock_all()";
  } else if (locks > 0) {
    message += "; release the lock before the wait, or take the result after it";
  } else {
    message += "; take the result after this task, or use other keys";
  }
  return {ErrorCode::kWaitCycle, std::move(message)};
}

}  // namespace

// One search: the visited edges, what each of them depends on, and what the edges that are not
// known to end hold.
struct WaitGraph::Search {
  struct Node {
    Edge* edge;
    detail::TaskOwner::Need need{};  // of its target task, or of the waiter that returns
    // The waits of the target, of the lock's holders or of the parts of the work, and the returns
    // of these waiters.
    std::vector<Edge*> all_must_end{};
    std::vector<const Scheduler*> threads{};  // each needs a free thread
    // For an await in a branch of when_any(): the waits of each other branch. The await ends if all
    // waits of one of these branches can.
    std::vector<std::vector<Edge*>> rivals{};
    bool has_free_rival = false;  // another branch does not wait

    bool ends_by_itself() const {
      return edge->bounded || edge->over_ || has_free_rival ||
             (edge->task != nullptr && edge->task->done());
    }
  };

  explicit Search(std::uint64_t search_number) : number(search_number) {}

  void add(Edge& edge) {
    if (edge.seen_ == number) return;
    edge.seen_ = number;
    edge.can_end_ = false;
    nodes.push_back({&edge});
  }
  // The waiter of `edge` can go on. Its thread is free if none of the thread's edges is open any
  // more.
  void let_thread_go(const Edge& edge) {
    const auto thread = open_in_thread.find(edge.thread_node_);
    if (thread != open_in_thread.end() && --thread->second == 0) {
      --stuck_threads[edge.thread_node_->scheduler];
    }
  }

  const std::uint64_t number;
  std::vector<Node> nodes;
  // For visited lanes and schedulers: the permits and threads of waits that are not known to end.
  std::unordered_map<LaneId, std::uint64_t> stuck_permits;
  std::unordered_map<const Scheduler*, std::uint64_t> stuck_threads;
  // For each waiter and thread, the number of edges that are not known to end.
  std::unordered_map<const WaiterNode*, std::size_t> open;
  std::unordered_map<const ThreadNode*, std::size_t> open_in_thread;
  PermitHolders permit_holders;  // for the message; filled by find_cycle()
};

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

// If nothing depends on the waiter, the new edge closes no cycle. All linked waits can end, so the
// waits of its target can, and the permits and the thread that its return needs become free.
bool WaitGraph::nothing_depends_on(const Edge& edge) const {
  if (work_edges_ > 0) return false;
  if (edge.operation->is_in_race()) return false;  // accepted waits count on it as a free rival
  if (edge.thread_ != nullptr && threads_are_scarce(edge.thread_)) return false;
  for (const Operation* one = edge.operation; one != nullptr; one = one->parent()) {
    if (one->locks_held() > 0 || one->parts_lock() || one->is_awaited) return false;
  }
  if (edge.node_ == nullptr) return true;
  if (targets_.contains(edge.waiter)) return false;
  return !edge.node_->holds_permit || lanes_.at(edge.node_->lane).targets == 0;
}

bool WaitGraph::can_come_back_at_once(const WaiterNode& node) {
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
  if (waiters_.contains(edge.ends_with_)) return false;
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
    std::unordered_map<const Operation*, std::vector<Edge*>> waits_of;
    for (Edge* other : by_operation_.at(whole.id())) {
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
      // A task that shares a result ends after the other one, and its own listener may wait.
      const auto depend_on_waits_of = [&](const TaskCore* task) KEYWAY_REQUIRES(mutex_) {
        const auto found = waiters_.find(task);
        if (found == waiters_.end()) return;
        for (Edge& of_target : found->second.edges) depend_on(node, of_target);
      };
      depend_on_waits_of(edge.ends_with_);
      if (edge.ends_with_ != edge.task) depend_on_waits_of(edge.task);
      node.need = owner.need(*edge.task);
      if (node.need.thread) need_thread(node, owner.scheduler());
    } else if (edge.lock != nullptr) {
      for (const std::uint64_t holder : edge.lock->in_the_way_of(*edge.operation)) {
        depend_on_parts(node, holder);
        depend_on_thread_of_run(node, holder);
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
      // All waits that return with this task, in the order of the search.
      for (const Search::Node& wait : search.nodes) {
        if (wait.edge->can_end_ && wait.edge != &edge && return_after(*wait.edge) == &edge) {
          search.let_thread_go(*wait.edge);
        }
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
  if (!is_alone || (!nothing_depends_on(edge) && !can_end_at_once(edge))) {
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
    edge.node_->lane_away = lane_was_away;
    update_hold(*edge.node_);
  }
  if (!refused) return {};
  unlink(edge);
  return *std::move(refused);
}

// Follows the dependencies from `edge` until they close a cycle. `short_of`: a scheduler without a
// free thread in it.
std::vector<const WaitGraph::Edge*> WaitGraph::find_cycle(const Edge& edge, Search& search,
                                                          const Scheduler*& short_of) {
  std::vector<const Edge*> cycle;
  std::unordered_set<const Edge*> in_cycle;
  std::unordered_map<const Edge*, const Search::Node*> nodes;
  for (const Search::Node& node : search.nodes) nodes.emplace(node.edge, &node);
  const Edge* next = &edge;
  if (edge.can_end_) {
    cycle.push_back(&edge);
    in_cycle.insert(&edge);
    next = &edge.node_->comes_back;
  }
  while (next != nullptr && in_cycle.insert(next).second) {
    cycle.push_back(next);
    const Search::Node& node = *nodes.at(std::exchange(next, nullptr));
    for (const Edge* dependency : node.all_must_end) {
      if (next == nullptr && !dependency->can_end_) next = dependency;
    }
    const auto lane = node.need.room > 0 ? lanes_.find(node.edge->target_lane_) : lanes_.end();
    if (next == nullptr && lane != lanes_.end() &&
        search.stuck_permits[node.edge->target_lane_] + node.need.room > node.need.limit) {
      for (const WaiterNode& holder : lane->second.holders) {
        for (const Edge& held : holder.edges) {
          if (next != nullptr || held.can_end_) continue;
          next = &held;
          search.permit_holders.emplace(node.edge, next);
        }
      }
    }
    for (const Scheduler* scheduler : node.threads) {
      if (next != nullptr || search.stuck_threads[scheduler] < scheduler->max_threads()) continue;
      short_of = scheduler;
      for (const ThreadNode& thread : blocked_.at(scheduler)) {
        for (const Edge& blocked : thread.edges) {
          if (next == nullptr && !blocked.can_end_ && !in_cycle.contains(&blocked)) next = &blocked;
        }
      }
    }
  }
  return cycle;
}

Error WaitGraph::refuse(const Edge& edge, Search& search) {
  const Scheduler* short_of = nullptr;
  const std::vector<const Edge*> cycle = find_cycle(edge, search, short_of);
  return refusal(cycle, search.permit_holders, short_of);
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
  for (const Edge* part : parts->second) {
    if (part->can_end_) continue;
    const Scheduler* short_of = nullptr;
    for (const Edge* edge : find_cycle(*part, search, short_of)) {
      if (waits_for_holder(*edge)) return edge->lock->refuse(refuse(*edge, search));
    }
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

// Only waiters that hold permits of `lane` can keep its other tasks from running.
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
        add_threads(search, holder.edges.front().waiter->owner().scheduler());
      }
      explore(search);
      settle(search);
      const auto comes_free = [&](const Scheduler& scheduler) {
        return search.stuck_threads.at(&scheduler) < scheduler.max_threads();
      };
      const auto is_stuck = [](const Edge& edge) { return !edge.can_end_ && edge.can_give_back; };
      // A return needs a thread: if no thread comes free, the waiter would never get its permits back.
      const auto stuck =
          std::find_if(found->second.holders.begin(), found->second.holders.end(),
                       [&](const WaiterNode& one) KEYWAY_REQUIRES(mutex_) {
                         return std::any_of(one.edges.begin(), one.edges.end(), is_stuck) &&
                                comes_free(one.edges.front().waiter->owner().scheduler());
                       });
      if (stuck == found->second.holders.end()) break;
      TaskCore& waiter = *stuck->edges.front().waiter;
      if (Runnable* runnable = waiter.owner().give_back_permit(waiter)) {
        to_post.emplace_back(&waiter.owner().scheduler(), runnable);
      }
      leave(*stuck, waiter, /*lane=*/true);
      let_lane_go(*stuck);
      any = true;
    }
  }
  for (const auto& [scheduler, runnable] : to_post) scheduler->post_from_outside(*runnable);
  return any;
}

}  // namespace keyway
