// A wait for a lock, as the graph of all waits sees it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "locks/lock_table.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

class LockWait final : private WantedLock {
 public:
  LockWait(const LockTable& table, std::string_view key, std::size_t hash, LockWaiter& waiter)
      : table_(table), key_(key), hash_(hash), waiter_(waiter) {}
  ~LockWait() { end(); }
  LockWait(const LockWait&) = delete;
  LockWait& operator=(const LockWait&) = delete;

  // Comes before it stands in line. `thread`: the scheduler whose thread waits; null for a coroutine, or a thread
  // that is no scheduler's. An error (kWaitCycle, kNoThread) if the wait would never end.
  Result<void> begin(Scheduler* thread);
  void end() {
    if (linked_) WaitGraph::instance().end(edge_);
    linked_ = false;
  }

 private:
  std::vector<std::uint64_t> in_the_way_of(const Operation& waiter) const override;
  std::string name() const override { return "key \"" + std::string(key_) + '"'; }

  const LockTable& table_;
  const std::string_view key_;
  const std::size_t hash_;
  LockWaiter& waiter_;
  WaitGraph::Edge edge_;
  bool linked_ = false;
};

}  // namespace keyway::detail
