#include "base/hot_keys.h"

#include <algorithm>
#include <functional>

#include "keyway/detail/check.h"

namespace keyway {

HotKeys::HotKeys(std::size_t capacity) : capacity_(capacity) {
  KEYWAY_CHECK(capacity > 0 && capacity < kNone, "HotKeys: no capacity");
}

HotKeys::Place HotKeys::add(std::string_view key, std::uint64_t weight) {
  total_ += weight;
  if (const auto found = slots_.find(key); found != slots_.end()) {
    raise(found->second, weight);
    return {.slot = found->second, .is_new = false};
  }
  if (counters_.size() < capacity_) {
    const auto slot = static_cast<Index>(counters_.size());
    const auto entry = slots_.emplace(key, slot).first;
    counters_.push_back({.key = &entry->first});
    enter(slot, level_of(weight, kNone));
    return {.slot = slot, .is_new = true};
  }
  const Index slot = levels_[lowest_].first;
  Counter& counter = counters_[slot];
  counter.error = levels_[lowest_].count;
  // The node moves over to the new key: nothing is allocated once all counters are in use.
  auto node = slots_.extract(*counter.key);
  node.key() = key;
  counter.key = &slots_.insert(std::move(node)).position->first;
  raise(slot, weight);
  return {.slot = slot, .is_new = true};
}

std::vector<HotKeys::Entry> HotKeys::top(std::size_t n) const {
  std::vector<Index> slots(counters_.size());
  for (Index i = 0; i < slots.size(); ++i) slots[i] = i;
  const auto count = [this](Index slot) { return levels_[counters_[slot].level].count; };
  const auto hotter = [&](Index a, Index b) {
    if (count(a) != count(b)) return count(a) > count(b);
    return *counters_[a].key < *counters_[b].key;
  };
  n = std::min(n, slots.size());
  const auto end = slots.begin() + static_cast<std::ptrdiff_t>(n);
  std::partial_sort(slots.begin(), end, slots.end(), hotter);
  std::vector<Entry> result;
  result.reserve(n);
  for (auto slot = slots.begin(); slot != end; ++slot) {
    const Counter& counter = counters_[*slot];
    result.push_back(
        {.key = *counter.key, .count = count(*slot), .error = counter.error, .slot = *slot});
  }
  return result;
}

void HotKeys::raise(Index counter, std::uint64_t weight) {
  if (weight == 0) return;
  const Index old = counters_[counter].level;
  // Its new level before it leaves the old one: from there the way is short.
  const Index level = level_of(levels_[old].count + weight, old);
  leave(counter);
  enter(counter, level);
}

HotKeys::Index HotKeys::level_of(std::uint64_t count, Index from) {
  Index below = kNone;
  if (from == kNone) from = lowest_;
  for (; from != kNone && levels_[from].count <= count; from = levels_[from].higher) {
    if (levels_[from].count == count) return from;
    below = from;
  }
  return new_level(count, below);
}

HotKeys::Index HotKeys::new_level(std::uint64_t count, Index lower) {
  Index made = kNone;
  if (free_levels_.empty()) {
    made = static_cast<Index>(levels_.size());
    levels_.emplace_back();
  } else {
    made = free_levels_.back();
    free_levels_.pop_back();
  }
  const Index higher = lower == kNone ? lowest_ : levels_[lower].higher;
  levels_[made] = {.count = count, .first = kNone, .lower = lower, .higher = higher};
  (lower == kNone ? lowest_ : levels_[lower].higher) = made;
  if (higher != kNone) levels_[higher].lower = made;
  return made;
}

void HotKeys::enter(Index counter, Index level) {
  Counter& entering = counters_[counter];
  entering.level = level;
  entering.before = kNone;
  entering.after = levels_[level].first;
  if (entering.after != kNone) counters_[entering.after].before = counter;
  levels_[level].first = counter;
}

void HotKeys::leave(Index counter) {
  const Counter& leaving = counters_[counter];
  Level& level = levels_[leaving.level];
  (leaving.before == kNone ? level.first : counters_[leaving.before].after) = leaving.after;
  if (leaving.after != kNone) counters_[leaving.after].before = leaving.before;
  if (level.first != kNone) return;
  (level.lower == kNone ? lowest_ : levels_[level.lower].higher) = level.higher;
  if (level.higher != kNone) levels_[level.higher].lower = level.lower;
  free_levels_.push_back(leaving.level);
}

}  // namespace keyway
