// The tasks that see each other by their ids: which of them have not ended yet.
//
// Thread safety: every method from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/operation.h"
#include "keyway/detail/task_core.h"
#include "keyway/task_handle.h"
#include "runtime/wait_graph.h"

namespace keyway {

// Tells the WaitGraph that a task which shares a result ends after its leader.
class FollowerWait {
 public:
  explicit FollowerWait(detail::TaskCore& follower)
      : follower_(follower), operation_(nullptr, &follower) {}
  ~FollowerWait() {
    if (linked_) WaitGraph::instance().end(edge_);
  }
  FollowerWait(const FollowerWait&) = delete;
  FollowerWait& operator=(const FollowerWait&) = delete;

  // An error (kWaitCycle) if the leader waits for the follower.
  Result<void> begin(detail::TaskCore& leader) {
    Result<void> begun =
        WaitGraph::instance().begin(edge_, &follower_, {.operation = operation_, .task = &leader});
    linked_ = begun.ok();
    return begun;
  }

 private:
  detail::TaskCore& follower_;
  const detail::Operation operation_;
  WaitGraph::Edge edge_;
  bool linked_ = false;
};

class ConflationTable {
 public:
  using References = std::vector<detail::CoreReference>;
  struct Follower {
    detail::CoreReference task;
    std::unique_ptr<FollowerWait> wait;  // null until keep()
  };

  // Adds `task`, unless a task with its id forbids it. With kToRun, `task` is in the table and may
  // run; with kOneToFollow it follows `leader`; otherwise it is not in the table.
  enum class Found { kToRun, kAnOlderOne, kOneToFollow, kOneOfAnotherType };
  Found enter(detail::TaskCore& task, detail::CoreReference& leader) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Entry& entry = entries_[name_of(task)];
    const Conflation mode = task.extras().conflation;
    task.extras().arrival = ++arrivals_;
    if (!entry.live.empty() && mode == Conflation::kKeepOldest) return Found::kAnOlderOne;
    if (!entry.live.empty() && mode == Conflation::kShareResult) {
      detail::TaskCore& first = *entry.live.rbegin()->second;
      if (first.operations().value_type != task.operations().value_type) {
        return Found::kOneOfAnotherType;
      }
      // relaxed: a search of the WaitGraph may read it before, and then sees a task that can run. The check of the
      // follower's own wait comes later, and sees the wait that was searched for.
      task.extras().follows.store(true, std::memory_order_relaxed);
      task.extras().leader = &first;
      task.retain();
      followers_[&first].emplace(task.extras().arrival,
                                 Follower{detail::CoreReference(&task), nullptr});
      first.retain();
      leader = detail::CoreReference(&first);
      return Found::kOneToFollow;
    }
    entry.live.emplace(task.extras().arrival, &task);
    return Found::kToRun;
  }

  // Keeps `wait` until the follower or its leader has ended. Does nothing if one of them has.
  void keep(detail::TaskCore& follower, std::unique_ptr<FollowerWait>& wait)
      KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const detail::TaskCore* leader = follower.extras().leader;
    if (leader == nullptr) return;
    followers_.at(leader).at(follower.extras().arrival).wait = std::move(wait);
  }

  // The unfinished tasks that were submitted before `task`, in the order of arrival, but for those
  // with which done_with_older() was called. `superseded`: marks them, so that each of them ends when
  // it enters its queue.
  References older_than(const detail::TaskCore& task, bool superseded) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = entries_.find(name_of(task));
    if (found == entries_.end()) return {};
    const Entry& entry = found->second;
    const bool stops = superseded && task.extras().conflation == Conflation::kCancelRunning;
    References older;
    auto at = entry.live.lower_bound(stops ? entry.stopped_before : entry.superseded_before);
    for (; at != entry.live.end() && at->first < task.extras().arrival; ++at) {
      detail::TaskCore* other = at->second;
      other->retain();
      // relaxed: the other task reads it after it has entered its queue, and the caller looks for
      // it in that queue, under the same lock.
      if (superseded) other->extras().superseded.store(true, std::memory_order_relaxed);
      older.emplace_back(other);
    }
    return older;
  }
  // The tasks that older_than(task, true) returned have begun or ended, or end when they enter their
  // queue; with kCancelRunning they were asked to stop as well. So a newer task has nothing more to do
  // with them, however many there are.
  void done_with_older(const detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = entries_.find(name_of(task));
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    const std::uint64_t arrival = task.extras().arrival;
    entry.superseded_before = std::max(entry.superseded_before, arrival);
    if (task.extras().conflation == Conflation::kCancelRunning) {
      entry.stopped_before = std::max(entry.stopped_before, arrival);
    }
  }

  // `task` has ended. Returns its followers, in the order of arrival.
  std::vector<Follower> leave(detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::vector<Follower> ending;
    if (const auto found = followers_.find(&task); found != followers_.end()) {
      for (auto& [arrival, follower] : found->second) {
        follower.task->extras().leader = nullptr;
        ending.push_back(std::move(follower));
      }
      followers_.erase(found);
    }
    if (const auto found = entries_.find(name_of(task)); found != entries_.end()) {
      found->second.live.erase(task.extras().arrival);
      if (found->second.live.empty()) entries_.erase(found);
    }
    return ending;
  }

  // A follower will not wait any longer. False if it has ended already.
  bool remove_follower(detail::TaskCore& task) KEYWAY_EXCLUDES(mutex_) {
    Follower removed;  // destroyed without the mutex
    MutexLock lock(mutex_);
    const detail::TaskCore* leader = std::exchange(task.extras().leader, nullptr);
    if (leader == nullptr) return false;
    const auto found = followers_.find(leader);
    const auto place = found->second.find(task.extras().arrival);
    removed = std::move(place->second);
    found->second.erase(place);
    if (found->second.empty()) followers_.erase(found);
    return true;
  }

 private:
  struct Entry {
    std::map<std::uint64_t, detail::TaskCore*> live;  // by arrival
    // Newer tasks are done with all that arrived before: a task with kCancelRunning, and any other.
    std::uint64_t stopped_before = 0;
    std::uint64_t superseded_before = 0;
  };

  // Any byte may stand in keys and ids, so the length of the key says where it ends.
  static std::string name_of(const detail::TaskCore& task) {
    const std::string_view key = task.group_key();
    return std::to_string(key.size()).append(1, ':').append(key).append(task.task_id());
  }

  Mutex<LockRank::kConflation> mutex_;
  std::uint64_t arrivals_ KEYWAY_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Entry> entries_ KEYWAY_GUARDED_BY(mutex_);
  // The followers of each leader, by arrival.
  std::unordered_map<const detail::TaskCore*, std::map<std::uint64_t, Follower>> followers_
      KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
