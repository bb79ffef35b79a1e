// The edges of a wait for tasks without permits: a task whose listener makes the wait, or a task that its submitter
// runs. Such a task does not end before the wait does, and others may wait for it.
//
// Thread safety: as int.
#pragma once

#include <memory>
#include <vector>

#include "runtime/wait_graph.h"

namespace keyway {

class PermitlessEdges {
 public:
  PermitlessEdges() = default;
  ~PermitlessEdges() { unlink(); }
  PermitlessEdges(const PermitlessEdges&) = delete;
  PermitlessEdges& operator=(const PermitlessEdges&) = delete;

  bool empty() const { return edges_.empty(); }

  // Links `wait` for `task`. If the graph refuses it, unlinks all edges of the wait.
  Result<void> link(detail::TaskCore& task, const detail::IntendedWait& wait) {
    auto edge = std::make_unique<WaitGraph::Edge>();
    edge->operation = &wait.operation;
    edge->waiter = &task;
    edge->task = wait.task;
    edge->lock = wait.lock;
    edge->work = wait.work;
    edge->bounded = wait.bounded;
    if (wait.blocks) edge->block_this_thread();
    if (Result<void> begun = WaitGraph::instance().begin(*edge); !begun) {
      unlink();
      return begun;
    }
    edges_.push_back(std::move(edge));
    return {};
  }
  void unlink() {
    for (const auto& edge : edges_) WaitGraph::instance().end(*edge);
    edges_.clear();
  }

 private:
  std::vector<std::unique_ptr<WaitGraph::Edge>> edges_;
};

}  // namespace keyway
