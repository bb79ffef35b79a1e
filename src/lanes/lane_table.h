// All lanes of one owner, by key: made by their first waiter, freed when nobody runs or waits.
//
//   LaneTable table(owner);
//   table.with_lane(key, hash, [&](Lane* lane) { ... });         // null if there is none
//
// Guarantees:
//   (1) A lane that somebody runs or waits in, or that is pinned, stays where it is.
//   (2) At most kWarmLanes idle lanes are kept, so that a key that comes back soon finds its lane, and
//       those only until forget_idle(); beyond that a lane is freed the moment it is idle, and the
//       table shrinks with it.
//   (3) After close(), no waiter gets in.
//
// Thread safety: every method from any thread. `visit` callbacks run under a shard's spin lock.
// Lifetime: when it is destroyed, no lane may have anybody inside and no turn may be out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/hash_key.h"
#include "base/spin_lock.h"
#include "keyway/detail/atomic.h"
#include "lanes/lane.h"

namespace keyway {

struct FreeBuckets {
  void operator()(Lane** buckets) const noexcept;
  std::size_t count = 0;
};

class LaneTable {
 public:
  explicit LaneTable(LaneOwner& owner) : owner_(owner) {}
  ~LaneTable();
  LaneTable(const LaneTable&) = delete;
  LaneTable& operator=(const LaneTable&) = delete;

  static std::size_t hash(std::string_view key) { return hash_key(key); }

  enum class Entered : std::uint8_t { kIn, kFull, kClosed, kNeedsLimits };
  struct Entry {  // small enough to be returned in registers
    Entered entered;
    Lane* needs_turn = nullptr;  // the caller must post this lane's turn
  };

  // Puts a waiter into the lane of `key`. kNeedsLimits: there is no lane yet, and no limits were given, or there are newer
  // ones: call again with those.
  Entry enter(std::string_view key, std::size_t hash, Waiter& waiter, const LaneLimits* limits);
  // The same for a lane that is pinned. `ranked`: as Lane::enter_ranked().
  static Entry enter(Lane& lane, Waiter& waiter, bool ranked = false);

  // Calls visit(Lane*) under the lock of the key's shard; null if the key has no lane.
  template <class Visit>
  auto with_lane(std::string_view key, std::size_t hash, Visit visit) {
    Shard& shard = shard_of(hash);
    SpinGuard guard(shard.lock);
    return visit(find(shard, key, hash));
  }

  // Calls visit(Lane&) for every lane, shard by shard.
  template <class Visit>
  void for_each(Visit visit) {
    all_of([&](Lane& lane) {
      visit(lane);
      return true;
    });
  }

  // Whether test(Lane&) holds for every lane; stops at the first for which it does not.
  template <class Test>
  bool all_of(Test test) {
    for (Shard& shard : shards_) {
      SpinGuard guard(shard.lock);
      if (!all_of(shard, test)) return false;
    }
    return true;
  }

  // Whether there was a moment at which no lane had a task, neither in it nor away from it.
  bool empty();

  // Counts what happened to tasks of a key outside of its lane, if it has one.
  void count_outside(std::string_view key, std::size_t hash, const LaneCounts& counts);
  // What all lanes have counted, with those that are gone. What a later call returns is never less, but for tasks that
  // wait or run.
  LaneCounts counts();

  // A lane that is pinned is not freed. The first form finds or makes it, and is null if it would be made and there are
  // newer limits; the second is null if there is none.
  Lane* pin(std::string_view key, std::size_t hash, const LaneLimits& limits);
  Lane* pin_existing(std::string_view key, std::size_t hash);
  void pin(Lane& lane);  // REQUIRES: somebody is inside, or it is pinned already
  std::vector<Lane*> pin_all();
  void unpin(Lane& lane);

  // Says that `lane`, which may be gone by now, was seen idle.
  void seen_idle(const Lane* lane, std::size_t hash) {
    Shard& shard = shard_of(hash);
    // relaxed: only a hint; the decision is made under the lock.
    if (shard.lane_count.load(std::memory_order_relaxed) > kWarmLanes / kShards) {
      free_if_idle(shard, lane, hash);
    }
  }
  // The same, but it does not stay warm either.
  void forget_if_idle(const Lane* lane, std::size_t hash) {
    free_if_idle(shard_of(hash), lane, hash);
  }

  // Frees all that are idle.
  void forget_idle();

  // From now on enter() answers kClosed. Whoever got in before is seen by a for_each() after it.
  void close();
  bool closed() const { return closed_.load(std::memory_order_seq_cst); }

  static constexpr std::size_t kShards = 64;
  static constexpr std::size_t kWarmLanes = 2048;

 private:
  using Buckets = std::unique_ptr<Lane*[], FreeBuckets>;
  static Buckets make_buckets(std::size_t count);

  struct alignas(64) Shard {
    SpinLock<LockRank::kLaneTable> lock;
    Buckets buckets KEYWAY_GUARDED_BY(lock);
    std::size_t bucket_count KEYWAY_GUARDED_BY(lock) = 0;
    bool closed KEYWAY_GUARDED_BY(lock) = false;
    bool keeps_idle KEYWAY_GUARDED_BY(lock) = false;  // lanes that were needed when last seen
    LaneCounts freed KEYWAY_GUARDED_BY(lock);
    // Its own cache line: read by everybody who sees a lane idle.
    alignas(64) detail::Atomic<std::size_t> lane_count{0};
  };

  template <class Test>
  static bool all_of(Shard& shard, Test& test) KEYWAY_REQUIRES(shard.lock) {
    for (std::size_t i = 0; i < shard.bucket_count; ++i) {
      for (Lane* lane = shard.buckets[i]; lane != nullptr; lane = lane->next_in_bucket_) {
        if (!test(*lane)) return false;
      }
    }
    return true;
  }
  // How many tasks have ever entered, if each lane was empty when it was looked at.
  std::optional<std::uint64_t> entered_if_empty();

  Shard& shard_of(std::size_t hash) { return shards_[(hash >> 48) % kShards]; }
  static Lane* find(Shard& shard, std::string_view key, std::size_t hash)
      KEYWAY_REQUIRES(shard.lock);
  // Null if there are newer limits.
  Lane* make(Shard& shard, std::string_view key, std::size_t hash, const LaneLimits& limits)
      KEYWAY_REQUIRES(shard.lock);
  void free_if_idle(Shard& shard, const Lane* lane, std::size_t hash);
  static bool free_if_idle(Shard& shard, Lane*& link) KEYWAY_REQUIRES(shard.lock);
  static void free_idle(Shard& shard) KEYWAY_REQUIRES(shard.lock);
  static void shrink(Shard& shard) KEYWAY_REQUIRES(shard.lock);
  static void resize(Shard& shard, std::size_t bucket_count) KEYWAY_REQUIRES(shard.lock);
  static void destroy(Lane* lane);

  LaneOwner& owner_;
  std::array<Shard, kShards> shards_;
  detail::Atomic<bool> closed_{false};
};

}  // namespace keyway
