// The submits that found a full queue and wait for room, in the order of arrival. An entry whose own
// group has no room is passed over by those of other groups. Each entry has a task that is ready to
// enter its lane; the operation that makes room lets it in.
//
// Thread safety: every method from any thread, under `mutex` where it says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
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
    std::uint64_t number = 0;  // by arrival; add() and replace() set it
  };

  // relaxed: the operation that makes room reads this after it has changed the lane, and a submit
  // tries the lane once more after add(). Both use the lane's lock, so one of them sees the other.
  bool empty() const { return size() == 0; }
  std::size_t size() const { return count_.load(std::memory_order_relaxed); }

  void add(const Entry& entry) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    Line& line = lines_[entry.lane];
    const Place place = line.entries.insert(line.entries.end(), entry);
    place->number = ++arrivals_;
    places_[entry.task] = place;
    ++line.costs[cost_of(entry)];
    candidates_.emplace(first_number(line), entry.lane);
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
    const Entry replaced = std::exchange(*place, entry);
    place->number = replaced.number;
    return replaced;
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
  void queue_was_full(Lane* lane) KEYWAY_REQUIRES(mutex) {
    candidates_.erase(first_number(lines_.at(lane)));
  }
  void queue_has_room(Lane* lane) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    const auto found = lines_.find(lane);
    // A lane that is not in the line may be freed.
    if (found != lines_.end()) candidates_.emplace(first_number(found->second), lane);
  }
  // Of the entries of all candidates the first by arrival, or null.
  Entry* first_of_candidates() KEYWAY_REQUIRES(mutex) {
    return candidates_.empty() ? nullptr : first(candidates_.begin()->second);
  }
  // Whether tasks wait for `lane`, and its own queue was full when the first of them was tried last.
  bool has_full_queue(Lane* lane) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    const auto found = lines_.find(lane);
    return found != lines_.end() && !candidates_.contains(first_number(found->second));
  }
  // In the order of arrival.
  std::vector<Entry> remove_all() KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    std::vector<Entry> all;
    for (const auto& [lane, line] : lines_) {
      all.insert(all.end(), line.entries.begin(), line.entries.end());
    }
    std::ranges::sort(all, {}, &Entry::number);
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

  static std::uint64_t first_number(const Line& line) { return line.entries.front().number; }
  static std::uint32_t cost_of(const Entry& entry) {
    return entry.task->has_extras() ? entry.task->extras().cost : 1;
  }
  static void uncount(Line& line, const Entry& entry) {
    const auto found = line.costs.find(cost_of(entry));
    if (--found->second == 0) line.costs.erase(found);
  }

  void erase(Place place) KEYWAY_REQUIRES(mutex) {
    const auto found = lines_.find(place->lane);
    Line& line = found->second;
    const bool is_candidate = candidates_.erase(first_number(line)) > 0;
    places_.erase(place->task);
    uncount(line, *place);
    line.entries.erase(place);
    if (line.entries.empty()) {
      lines_.erase(found);
    } else if (is_candidate) {
      candidates_.emplace(first_number(line), found->first);
    }
    count_.fetch_sub(1, std::memory_order_relaxed);
  }

  detail::Atomic<std::size_t> count_{0};  // written under mutex
  std::unordered_map<Lane*, Line> lines_ KEYWAY_GUARDED_BY(mutex);
  std::unordered_map<const detail::TaskCore*, Place> places_ KEYWAY_GUARDED_BY(mutex);
  // By the number of the lane's first entry.
  std::map<std::uint64_t, Lane*> candidates_ KEYWAY_GUARDED_BY(mutex);
  std::uint64_t arrivals_ KEYWAY_GUARDED_BY(mutex) = 0;
};

}  // namespace keyway
