// How long the tasks of the busiest groups wait and run: what GroupPolicy::observe asks for.
//
// Memory: bounded, however many groups there are. Groups are found by counting (HotKeys); one that is not
// among the busiest any more loses its times.
//
// Thread safety: every method from any thread.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/hot_keys.h"
#include "base/mutex.h"
#include "keyway/explanation.h"

namespace keyway {

class GroupObserver {
 public:
  void started(std::string_view key, std::size_t hash, Duration waited);
  void ended(std::string_view key, std::size_t hash, Duration ran);

  // Those with the most tasks, the first with the most.
  std::vector<HotGroup> top(std::size_t count);
  std::optional<HotGroup> of(std::string_view key, std::size_t hash);

  static constexpr std::size_t kGroups = 1024;  // that are counted at once

 private:
  static constexpr std::size_t kShards = 16;
  struct Times {
    Histogram waiting;
    Histogram running;
  };
  struct Shard {
    Mutex<> mutex;
    HotKeys keys KEYWAY_GUARDED_BY(mutex){kGroups / kShards};
    std::vector<Times> times KEYWAY_GUARDED_BY(mutex);  // by the key's slot
  };
  Shard& shard_of(std::size_t hash) { return shards_[(hash >> 32) % kShards]; }
  static HotGroup group_of(const HotKeys::Entry& entry, const Times& times);

  std::array<Shard, kShards> shards_;
};

}  // namespace keyway
