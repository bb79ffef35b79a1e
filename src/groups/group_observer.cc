#include "groups/group_observer.h"

#include <algorithm>
#include <utility>

#include "runtime/sampled_times.h"

namespace keyway {

void GroupObserver::started(std::string_view key, std::size_t hash, Duration waited) {
  Shard& shard = shard_of(hash);
  MutexLock lock(shard.mutex);
  const HotKeys::Place place = shard.keys.add(key);
  if (place.slot >= shard.times.size()) shard.times.resize(place.slot + 1);
  if (place.is_new) shard.times[place.slot] = {};
  shard.times[place.slot].waiting.add(waited);
}

void GroupObserver::ended(std::string_view key, std::size_t hash, Duration ran) {
  Shard& shard = shard_of(hash);
  MutexLock lock(shard.mutex);
  // Not counted any more: then others are busier.
  if (const auto slot = shard.keys.slot_of(key)) shard.times[*slot].running.add(ran);
}

HotGroup GroupObserver::group_of(const HotKeys::Entry& entry, const Times& times) {
  return {.group_key = std::string(entry.key),
          .started = entry.count,
          .error = entry.error,
          .waiting = summary_of(times.waiting),
          .running = summary_of(times.running)};
}

std::vector<HotGroup> GroupObserver::top(std::size_t count) {
  std::vector<HotGroup> groups;
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    for (const HotKeys::Entry& entry : shard.keys.top(count)) {
      groups.push_back(group_of(entry, shard.times[entry.slot]));
    }
  }
  std::sort(groups.begin(), groups.end(), [](const HotGroup& a, const HotGroup& b) {
    return std::pair(b.started, std::string_view(a.group_key)) <
           std::pair(a.started, std::string_view(b.group_key));
  });
  if (groups.size() > count) groups.resize(count);
  return groups;
}

std::optional<HotGroup> GroupObserver::of(std::string_view key, std::size_t hash) {
  Shard& shard = shard_of(hash);
  MutexLock lock(shard.mutex);
  for (const HotKeys::Entry& entry : shard.keys.top(shard.keys.capacity())) {
    if (entry.key == key) return group_of(entry, shard.times[entry.slot]);
  }
  return std::nullopt;
}

}  // namespace keyway
