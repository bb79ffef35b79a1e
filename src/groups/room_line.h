// Who wants to submit to a group whose queue is full, and waits for room: in the order they came, group by
// group. Each stands here with a task that is ready to enter its lane; whoever makes room lets it in.
//
// Thread safety: every method from any thread, under `mutex` where it says so.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/task_core.h"
#include "lanes/lane.h"

namespace keyway {

class RoomLine {
 public:
  struct Entry {
    detail::TaskCore* task = nullptr;
    Lane* lane = nullptr;  // pinned
    detail::RoomWaiter* waiter = nullptr;
  };

  // Whether anybody waits. Who makes room asks after it has changed the lane, and who waits tries the
  // lane once more after it has come here: under the lane's lock, so one of them sees the other.
  bool empty() const { return size() == 0; }
  std::size_t size() const { return count_.load(std::memory_order_relaxed); }

  void add(const Entry& entry) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    lines_[entry.lane].push_back(entry);
    count_.fetch_add(1, std::memory_order_relaxed);
  }

  // The first who waits for `lane`, or null.
  Entry* first(Lane* lane) KEYWAY_REQUIRES(mutex) {
    const auto found = lines_.find(lane);
    return found == lines_.end() ? nullptr : &found->second.front();
  }
  void pop_first(Lane* lane) KEYWAY_REQUIRES(mutex) {
    const auto found = lines_.find(lane);
    found->second.pop_front();
    if (found->second.empty()) lines_.erase(found);
    count_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Takes `task` out. An entry without a task if it is not here.
  Entry remove(const detail::TaskCore& task) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    for (auto& [lane, line] : lines_) {
      for (auto entry = line.begin(); entry != line.end(); ++entry) {
        if (entry->task != &task) continue;
        const Entry removed = *entry;
        line.erase(entry);
        if (line.empty()) lines_.erase(lane);
        count_.fetch_sub(1, std::memory_order_relaxed);
        return removed;
      }
    }
    return {};
  }

  std::vector<Lane*> lanes() KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    return lanes_by_key();
  }
  // Lane by lane, in the order of their keys; within a lane in the order of arrival.
  std::vector<Entry> remove_all() KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    std::vector<Entry> all;
    for (Lane* lane : lanes_by_key()) {
      const std::deque<Entry>& line = lines_[lane];
      all.insert(all.end(), line.begin(), line.end());
    }
    lines_.clear();
    count_.store(0, std::memory_order_relaxed);
    return all;
  }

  Mutex mutex;

 private:
  std::vector<Lane*> lanes_by_key() KEYWAY_REQUIRES(mutex) {
    std::vector<Lane*> found;
    found.reserve(lines_.size());
    for (const auto& [lane, line] : lines_) found.push_back(lane);
    std::ranges::sort(found, LaneByKey());
    return found;
  }

  std::atomic<std::size_t> count_{0};  // written under mutex
  std::map<Lane*, std::deque<Entry>> lines_ KEYWAY_GUARDED_BY(mutex);
};

}  // namespace keyway
