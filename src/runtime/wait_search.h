// The state of one search of the WaitGraph. For wait_search.cc, which fills it, and wait_refusal.cc, which explains it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/wait_graph.h"

namespace keyway {

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
  // The waits whose waiters go on with a return, by that return, in the order of the search.
  std::unordered_map<const Edge*, std::vector<const Edge*>> return_with;
  // For each waiter and thread, the number of edges that are not known to end.
  std::unordered_map<const WaiterNode*, std::size_t> open;
  std::unordered_map<const ThreadNode*, std::size_t> open_in_thread;
  std::unordered_map<const Edge*, const Edge*>
      permit_holders;  // for the message; filled by find_cycle()
};

}  // namespace keyway
