// The submits that found a full queue and wait for room, in the order of arrival within each group.
// Each entry has a task that is ready to enter its lane; the operation that makes room lets it in.
//
// Thread safety: every method from any thread, under `mutex` where it says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/atomic.h"
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

  // relaxed: the operation that makes room reads this after it has changed the lane, and a submit
  // tries the lane once more after add(). Both use the lane's lock, so one of them sees the other.
  bool empty() const { return size() == 0; }
  std::size_t size() const { return count_.load(std::memory_order_relaxed); }

  void add(const Entry& entry) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    Line& line = lines_[entry.lane];
    places_[entry.task] = line.entries.insert(line.entries.end(), entry);
    ++line.costs[cost_of(entry)];
    candidates_.emplace(entry.lane->key(), entry.lane);
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  // Puts `entry` into the place of `old`, and returns the entry of `old`. If `old` is not in the
  // line, `entry` is not added, and the returned entry has no task. REQUIRES: both wait for the
  // same lane.
  Entry replace(const detail::TaskCore& old, const Entry& entry) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    const auto found = places_.find(&old);
    if (found == places_.end()) return {};
    const Place place = found->second;
    places_.erase(found);
    places_[entry.task] = place;
    Line& line = lines_.at(place->lane);
    uncount(line, *place);
    ++line.costs[cost_of(entry)];
    return std::exchange(*place, entry);
  }

  // The maximum cost of the tasks that wait for `lane`; 0: none waits. The lane may be freed.
  std::uint32_t largest_cost(Lane* lane) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    const auto found = lines_.find(lane);
    return found == lines_.end() ? 0 : found->second.costs.rbegin()->first;
  }

  // The first entry that waits for `lane`, or null.
  Entry* first(Lane* lane) KEYWAY_REQUIRES(mutex) {
    const auto found = lines_.find(lane);
    return found == lines_.end() ? nullptr : &found->second.entries.front();
  }
  void pop_first(Lane* lane) KEYWAY_REQUIRES(mutex) { erase(lines_.at(lane).entries.begin()); }

  // Takes `task` out. An entry without a task if it is not here.
  Entry remove(const detail::TaskCore& task) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    const auto found = places_.find(&task);
    if (found == places_.end()) return {};
    const Entry removed = *found->second;
    erase(found->second);
    return removed;
  }

  // Candidates are the lanes in the line whose own queue may have room. add() makes a lane a
  // candidate, queue_was_full() ends that, and queue_has_room() makes it one again. Only candidates
  // are tried when the global queue has room, however many lanes are in the line.
  void queue_was_full(Lane* lane) KEYWAY_REQUIRES(mutex) { candidates_.erase(lane->key()); }
  void queue_has_room(Lane* lane) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    // A lane that is not in the line may be freed.
    if (lines_.contains(lane)) candidates_.emplace(lane->key(), lane);
  }
  // The candidate with the smallest key after `key`, or null. An order by address would not be
  // reproducible.
  Lane* candidate_after(std::string_view key) KEYWAY_REQUIRES(mutex) {
    const auto found = candidates_.upper_bound(key);
    return found == candidates_.end() ? nullptr : found->second;
  }
  // Lane by lane, in the order of their keys; within a lane in the order of arrival.
  std::vector<Entry> remove_all() KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    std::vector<Entry> all;
    for (Lane* lane : sorted_lanes()) {
      const std::list<Entry>& entries = lines_.at(lane).entries;
      all.insert(all.end(), entries.begin(), entries.end());
    }
    lines_.clear();
    candidates_.clear();
    places_.clear();
    count_.store(0, std::memory_order_relaxed);
    return all;
  }

  Mutex<LockRank::kRoomLine> mutex;

 private:
  using Place = std::list<Entry>::iterator;
  struct Line {
    std::list<Entry> entries;
    std::map<std::uint32_t, std::size_t> costs;  // of these: how many have each cost
  };

  static std::uint32_t cost_of(const Entry& entry) {
    return entry.task->has_extras() ? entry.task->extras().cost : 1;
  }
  static void uncount(Line& line, const Entry& entry) {
    const auto found = line.costs.find(cost_of(entry));
    if (--found->second == 0) line.costs.erase(found);
  }

  void erase(Place place) KEYWAY_REQUIRES(mutex) {
    const auto line = lines_.find(place->lane);
    places_.erase(place->task);
    uncount(line->second, *place);
    line->second.entries.erase(place);
    if (line->second.entries.empty()) {
      candidates_.erase(line->first->key());
      lines_.erase(line);
    }
    count_.fetch_sub(1, std::memory_order_relaxed);
  }
  std::vector<Lane*> sorted_lanes() const KEYWAY_REQUIRES(mutex) {
    std::vector<Lane*> found;
    found.reserve(lines_.size());
    for (const auto& [lane, line] : lines_) found.push_back(lane);
    std::sort(found.begin(), found.end(), LaneByKey());
    return found;
  }

  detail::Atomic<std::size_t> count_{0};  // written under mutex
  std::unordered_map<Lane*, Line> lines_ KEYWAY_GUARDED_BY(mutex);
  std::unordered_map<const detail::TaskCore*, Place> places_ KEYWAY_GUARDED_BY(mutex);
  std::map<std::string_view, Lane*> candidates_ KEYWAY_GUARDED_BY(mutex);  // of pinned lanes
};

}  // namespace keyway
