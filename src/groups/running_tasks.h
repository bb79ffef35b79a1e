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
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/hash_key.h"
#include "base/mutex.h"
#include "keyway/detail/task_core.h"

namespace keyway {

class RunningTasks {
 public:
  void add(detail::TaskCore& task) {
    Shard& shard = shard_of(task);
    MutexLock lock(shard.mutex);
    shard.tasks.insert(place_of(task));
  }

  void remove(detail::TaskCore& task) {
    Shard& shard = shard_of(task);
    MutexLock lock(shard.mutex);
    shard.tasks.erase(place_of(task));
  }

  // The tasks of one group, or all, with a reference to each. The longest running first: in an order that does not
  // depend on where they lie in memory, so that a simulation can be replayed.
  std::vector<detail::CoreReference> find(std::optional<std::string_view> key) {
    std::vector<detail::CoreReference> found;
    for_each(key, [&](detail::TaskCore& task) {
      task.retain();
      found.emplace_back(&task);
    });
    const auto order = [](const detail::CoreReference& task) {
      return std::tuple(task->started(), task->group_key(), task->task_id());
    };
    std::ranges::sort(found, {}, order);
    return found;
  }

  // Since when it runs, if it is here.
  std::optional<TimePoint> started(const detail::TaskCore& task) {
    Shard& shard = shard_of(task);
    MutexLock lock(shard.mutex);
    if (!shard.tasks.contains(place_of(task))) return std::nullopt;
    return task.started();
  }

  // Calls visit(TaskCore&) for each task of one group, or for all, under a lock. Does not look at other groups' tasks.
  template <class Visit>
  void for_each(std::optional<std::string_view> key, Visit visit) {
    const std::size_t group = key ? hash_key(*key) : 0;
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mutex);
      auto place = shard.tasks.lower_bound({group, nullptr});
      for (; place != shard.tasks.end(); ++place) {
        if (key && place->first != group) break;
        if (!key || place->second->group_key() == *key) visit(*place->second);
      }
    }
  }

 private:
  using Place = std::pair<std::size_t, detail::TaskCore*>;  // the hash of its group comes first
  static Place place_of(const detail::TaskCore& task) {
    return {hash_key(task.group_key()), const_cast<detail::TaskCore*>(&task)};
  }
  struct Shard {
    Mutex<LockRank::kRunningTasks> mutex;
    std::set<Place> tasks KEYWAY_GUARDED_BY(mutex);
  };
  Shard& shard_of(const detail::TaskCore& task) {
    return shards_[std::hash<const void*>{}(&task) / 64 % shards_.size()];
  }

  std::array<Shard, 16> shards_;
};

}  // namespace keyway
