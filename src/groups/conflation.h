// The tasks that see each other by their ids: which of them have not ended yet.
//
// Thread safety: every method from any thread.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/task_core.h"
#include "keyway/task_handle.h"

namespace keyway {

class ConflationTable {
 public:
  using References = std::vector<detail::CoreReference>;

  // What a newcomer finds.
  struct Found {
    enum { kNobody, kAnOlderOne, kOneToFollow, kOneOfAnotherType } what = kNobody;
    References others;  // that it takes the place of, or asks to stop
  };

  // Enters the task, if it finds nobody: it is to run.
  Found enter(detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Entry& entry = entries_[name_of(task)];
    Found found;
    const Conflation mode = task.extras().conflation;
    if (!entry.live.empty() && mode == Conflation::kKeepOldest) {
      found.what = Found::kAnOlderOne;
      return found;
    }
    if (!entry.live.empty() && mode == Conflation::kShareResult) {
      detail::TaskCore& leader = *entry.live.back();
      if (leader.operations().value_type != task.operations().value_type) {
        found.what = Found::kOneOfAnotherType;
        return found;
      }
      task.extras().follows = true;
      task.retain();
      entry.followers.push_back({&leader, detail::CoreReference(&task)});
      found.what = Found::kOneToFollow;
      return found;
    }
    if (mode == Conflation::kKeepNewest || mode == Conflation::kCancelRunning) {
      for (detail::TaskCore* other : entry.live) {
        other->retain();
        other->extras().superseded.store(true, std::memory_order_relaxed);
        found.others.emplace_back(other);
      }
    }
    entry.live.push_back(&task);
    return found;
  }

  // The task has ended. Gives those who end with it.
  References leave(detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = entries_.find(name_of(task));
    if (found == entries_.end()) return {};
    Entry& entry = found->second;
    References ending;
    for (Follower& follower : entry.followers) {
      if (follower.leader == &task) ending.push_back(std::move(follower.task));
    }
    std::erase_if(entry.followers, [](const Follower& follower) { return !follower.task; });
    std::erase(entry.live, &task);
    if (entry.live.empty()) entries_.erase(found);
    return ending;
  }

  // A follower will not wait any longer. False if it has ended already.
  bool remove_follower(detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_) {
    detail::CoreReference removed;  // let go of without the mutex
    MutexLock lock(mutex_);
    const auto found = entries_.find(name_of(task));
    if (found == entries_.end()) return false;
    for (Follower& follower : found->second.followers) {
      if (follower.task.get() == &task) removed = std::move(follower.task);
    }
    return std::erase_if(found->second.followers,
                         [](const Follower& follower) { return !follower.task; }) > 0;
  }

  // Calls visit(TaskCore&) for the one that `task` follows, which cannot end meanwhile.
  template <class Visit>
  void with_leader(const detail::TaskCore& task, Visit visit) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = entries_.find(name_of(task));
    if (found == entries_.end()) return;
    for (const Follower& follower : found->second.followers) {
      if (follower.task.get() == &task) return visit(*follower.leader);
    }
  }

 private:
  struct Follower {
    detail::TaskCore* leader;
    detail::CoreReference task;
  };
  struct Entry {
    std::vector<detail::TaskCore*> live;  // in the order they came
    std::vector<Follower> followers;
  };

  static std::string name_of(const detail::TaskCore& task) {
    std::string name(task.group_key());
    name.push_back('\0');
    return name.append(task.task_id());
  }

  Mutex<LockRank::kConflation> mutex_;
  std::unordered_map<std::string, Entry> entries_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
