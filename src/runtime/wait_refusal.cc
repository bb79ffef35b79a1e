// The error of a refused wait: names the cycle that the wait would close, and what to do instead.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/wait_search.h"

namespace keyway {

namespace {

// Whether the waiter shares the lock that it wants for itself. `next`: the next edge of the cycle; the edge of a return has
// no operation.
bool is_upgrade(const WaitGraph::Edge& edge, const WaitGraph::Edge& next) {
  if (edge.lock == nullptr || next.operation == nullptr) return false;
  const std::vector<std::uint64_t> holders = edge.lock->in_the_way_of(*next.operation);
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
    upgrades = upgrades || is_upgrade(edge, *cycle[(i + 1) % cycle.size()]);
    if (i == kNamed) message += "; and " + std::to_string(cycle.size() - kNamed) + " more";
    if (i >= kNamed) continue;
    if (i > 0) message += "; ";
    message += edge.waiter_name() + " waits for " + edge.target_name();
    if (const auto holder = holders.find(&edge); holder != holders.end()) {
      message += edge.task != nullptr ? ", which needs a permit that " : ", which ";
      message += holder->second->waiter_name() + " holds";
    }
  }
  if (short_of_threads != nullptr) {
    const std::size_t threads = short_of_threads->max_threads();
    message += "; no thread would be left to run it, because " +
               (threads == 1 ? "the only thread" : "all " + std::to_string(threads) + " threads") +
               " would wait; ";
    if (refused.blocks_a_thread_of(short_of_threads)) {
      message += refused.how_to_wait_otherwise() + std::string(", or ");
    }
    message += short_of_threads->how_to_get_more_threads();
    return {ErrorCode::kNoThread, std::move(message)};
  }
  if (locks == cycle.size() && upgrades) {
    message +=
        "; a reader that is to write must lock the key exclusively from the beginning, or release "
        "it before";
  } else if (locks == cycle.size() && locks > 1) {
    message += "; take the keys in one order everywhere, or by lock_all()";
  } else if (locks > 0) {
    message += "; release the lock before the wait, or take the result after it";
  } else {
    message += "; take the result after this task, or use other keys";
  }
  return {ErrorCode::kWaitCycle, std::move(message)};
}

}  // namespace

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

}  // namespace keyway
