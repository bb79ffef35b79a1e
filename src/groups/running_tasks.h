// The running tasks that somebody may want to find: those that can be asked to stop, which take a stop
// token or are coroutines; and all of them, in an executor that observes.
//
// Thread safety: every method from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/task_core.h"

namespace keyway {

class RunningTasks {
 public:
  void add(detail::TaskCore& task) {
    Shard& shard = shard_of(task);
    MutexLock lock(shard.mutex);
    shard.tasks.insert(&task);
  }

  void remove(detail::TaskCore& task) {
    Shard& shard = shard_of(task);
    MutexLock lock(shard.mutex);
    shard.tasks.erase(&task);
  }

  // The tasks for which `wanted` holds, with a reference to each. The longest running first: in an order that does not
  // depend on where they lie in memory, so that a simulation can be replayed.
  template <class Wanted>
  std::vector<detail::CoreReference> find(Wanted wanted) {
    std::vector<detail::CoreReference> found;
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      for (detail::TaskCore* task : shard.tasks) {
        if (!wanted(*task)) continue;
        task->retain();
        found.emplace_back(task);
      }
    }
    const auto place = [](const detail::CoreReference& task) {
      return std::tuple(task->started(), task->group_key(), task->task_id());
    };
    std::ranges::sort(found, {}, place);
    return found;
  }

  // Since when it runs, if it is here.
  std::optional<TimePoint> started(const detail::TaskCore& task) {
    Shard& shard = shard_of(task);
    MutexLock lock(shard.mutex);
    if (!shard.tasks.contains(const_cast<detail::TaskCore*>(&task))) return std::nullopt;
    return task.started();
  }

  // Calls visit(const TaskCore&) for each, under a lock.
  template <class Visit>
  void for_each(Visit visit) {
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      for (const detail::TaskCore* task : shard.tasks) visit(*task);
    }
  }

 private:
  struct Shard {
    Mutex<LockRank::kRunningTasks> mutex;
    std::unordered_set<detail::TaskCore*> tasks KEYWAY_GUARDED_BY(mutex);
  };
  Shard& shard_of(const detail::TaskCore& task) {
    return shards_[std::hash<const void*>{}(&task) / 64 % shards_.size()];
  }

  std::array<Shard, 16> shards_;
};

}  // namespace keyway
