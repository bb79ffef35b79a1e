#include "lanes/lane_table.h"

#include <new>

#include <sys/mman.h>

#include "base/prefetch.h"
#include "keyway/detail/block_pool.h"
#include "keyway/detail/check.h"

namespace keyway {
namespace {

constexpr std::size_t kMinBuckets = 16;
// From here on buckets come from the system and go back to it: malloc would keep them for later.
constexpr std::size_t kPageOfBuckets = 4096 / sizeof(Lane*);

LaneTable::Entry entry_of(Lane& lane, Lane::Entered entered) {
  switch (entered) {
    case Lane::Entered::kNeedsTurn:
      return {.entered = LaneTable::Entered::kIn, .needs_turn = &lane};
    case Lane::Entered::kTurnIsOnItsWay:
      return {.entered = LaneTable::Entered::kIn};
    case Lane::Entered::kFull:
      return {.entered = LaneTable::Entered::kFull};
    case Lane::Entered::kClosed:
      return {.entered = LaneTable::Entered::kClosed};
  }
  return {.entered = LaneTable::Entered::kClosed};
}

}  // namespace

LaneTable::~LaneTable() {
  for (Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    for (std::size_t i = 0; i < shard.bucket_count; ++i) {
      while (Lane* lane = shard.buckets[i]) {
        KEYWAY_CHECK(lane->idle(), "a lane table was destroyed with somebody inside a lane");
        KEYWAY_CHECK(lane->pins_ == 0,
                     "a GroupExecutor is destroyed before a GroupHandle of its group; destroy the "
                     "handle first");
        shard.buckets[i] = lane->next_in_bucket_;
        destroy(lane);
      }
    }
  }
}

LaneTable::Entry LaneTable::enter(std::string_view key, std::size_t hash, Waiter& waiter,
                                  const LaneLimits* limits) {
  Shard& shard = shard_of(hash);
  SpinGuard guard(shard.lock);
  Lane* lane = find(shard, key, hash);
  if (lane == nullptr) {
    if (shard.closed) return {.entered = Entered::kClosed};
    if (limits != nullptr) lane = make(shard, key, hash, *limits);
    if (lane == nullptr) return {.entered = Entered::kNeedsLimits};
  }
  return entry_of(*lane, lane->enter(waiter));
}

LaneTable::Entry LaneTable::enter(Lane& lane, Waiter& waiter, bool ranked) {
  return entry_of(lane, ranked ? lane.enter_ranked(waiter) : lane.enter(waiter));
}

Lane* LaneTable::pin(std::string_view key, std::size_t hash, const LaneLimits& limits) {
  Shard& shard = shard_of(hash);
  SpinGuard guard(shard.lock);
  Lane* lane = find(shard, key, hash);
  if (lane == nullptr) lane = make(shard, key, hash, limits);
  if (lane != nullptr) ++lane->pins_;
  return lane;
}

Lane* LaneTable::pin_existing(std::string_view key, std::size_t hash) {
  return with_lane(key, hash, [](Lane* lane) {
    if (lane != nullptr) ++lane->pins_;
    return lane;
  });
}

void LaneTable::pin(Lane& lane) {
  SpinGuard guard(shard_of(lane.hash()).lock);
  ++lane.pins_;
}

std::vector<Lane*> LaneTable::pin_all() {
  std::vector<Lane*> lanes;
  for_each([&](Lane& lane) {
    ++lane.pins_;
    lanes.push_back(&lane);
  });
  return lanes;
}

void LaneTable::unpin(Lane& lane) {
  const std::size_t hash = lane.hash();
  {
    SpinGuard guard(shard_of(hash).lock);
    --lane.pins_;
  }
  seen_idle(&lane, hash);
}

void LaneTable::count_outside(std::string_view key, std::size_t hash, const LaneCounts& counts) {
  Shard& shard = shard_of(hash);
  SpinGuard guard(shard.lock);
  if (Lane* lane = find(shard, key, hash)) {
    lane->count_outside(counts);
  } else {
    shard.freed += counts;
  }
}

LaneCounts LaneTable::counts() {
  LaneCounts sum;
  for (Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    sum += shard.freed;
    auto add = [&](Lane& lane) {
      sum += lane.counts();
      return true;
    };
    all_of(shard, add);
  }
  return sum;
}

// The shards are looked at one after the other, and a task may enter a lane that was looked at before it leaves one that was
// not. But if nobody has entered between two looks that found each lane empty, all were empty between the two.
bool LaneTable::empty() {
  std::optional<std::uint64_t> before = entered_if_empty();
  while (before) {
    const std::optional<std::uint64_t> after = entered_if_empty();
    if (after == before) return true;
    before = after;
  }
  return false;
}

std::optional<std::uint64_t> LaneTable::entered_if_empty() {
  std::uint64_t entered = 0;
  for (Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    entered += shard.freed.entered;
    auto is_empty = [&](Lane& lane) { return lane.empty(entered); };
    if (!all_of(shard, is_empty)) return std::nullopt;
  }
  return entered;
}

void LaneTable::close() {
  closed_.store(true, std::memory_order_seq_cst);
  for (Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    shard.closed = true;
  }
  for_each([](Lane& lane) { lane.close(); });
}

Lane* LaneTable::find(Shard& shard, std::string_view key, std::size_t hash) {
  if (shard.bucket_count == 0) return nullptr;
  Lane* lane = shard.buckets[hash & (shard.bucket_count - 1)];
  // Most often it is the first one, and whoever asks is about to enter: have that line come from the
  // worker's cache while the keys are compared.
  prefetch_to_write(lane);
  while (lane != nullptr && (lane->hash_ != hash || !detail::same_text(lane->key(), key))) {
    lane = lane->next_in_bucket_;
  }
  return lane;
}

Lane* LaneTable::make(Shard& shard, std::string_view key, std::size_t hash,
                      const LaneLimits& limits) {
  // Whoever changes limits looks for the lane afterwards, under the shard's lock: so either the newest limits are seen here,
  // or the lane there.
  if (!owner_.are_current(limits, hash)) return nullptr;
  // relaxed: lane_count is written under the lock only.
  std::size_t count = shard.lane_count.load(std::memory_order_relaxed);
  if (count >= shard.bucket_count) {
    // Lanes that stayed because they were needed for a while may go by now.
    if (shard.keeps_idle) free_idle(shard);
    count = shard.lane_count.load(std::memory_order_relaxed);
  }
  if (count >= shard.bucket_count) {
    resize(shard, shard.bucket_count == 0 ? kMinBuckets : 2 * shard.bucket_count);
  }
  Lane* lane = new (detail::allocate_block(sizeof(Lane))) Lane(owner_, key, hash, limits);
  if (shard.closed) lane->close();
  lane->extension_ = owner_.extend(*lane);
  Lane*& bucket = shard.buckets[hash & (shard.bucket_count - 1)];
  lane->next_in_bucket_ = bucket;
  bucket = lane;
  shard.lane_count.store(count + 1, std::memory_order_relaxed);
  return lane;
}

void LaneTable::free_if_idle(Shard& shard, const Lane* lane, std::size_t hash) {
  SpinGuard guard(shard.lock);
  if (shard.bucket_count == 0) return;
  // The pointer is only compared until it is found in the table: the lane may be gone.
  Lane** link = &shard.buckets[hash & (shard.bucket_count - 1)];
  while (*link != nullptr && *link != lane) link = &(*link)->next_in_bucket_;
  if (*link != nullptr && free_if_idle(shard, *link)) shrink(shard);
}

// Frees the lane that `link` points to, and lets `link` point to the next one.
bool LaneTable::free_if_idle(Shard& shard, Lane*& link) {
  Lane* lane = link;
  if (lane->pins_ > 0) return false;
  if (lane->extension_ != nullptr && lane->idle() && lane->extension_->is_needed()) {
    shard.keeps_idle = true;
    return false;
  }
  if (!lane->retire(shard.freed)) return false;
  link = lane->next_in_bucket_;
  // relaxed: written under the lock only.
  const std::size_t count = shard.lane_count.load(std::memory_order_relaxed);
  shard.lane_count.store(count - 1, std::memory_order_relaxed);
  destroy(lane);
  return true;
}

void LaneTable::shrink(Shard& shard) {
  const std::size_t count = shard.lane_count.load(std::memory_order_relaxed);
  std::size_t buckets = shard.bucket_count;
  while (count < buckets / 8 && buckets > kMinBuckets) buckets /= 2;
  if (buckets < shard.bucket_count) resize(shard, buckets);
}

void LaneTable::forget_idle() {
  for (Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    free_idle(shard);
    shrink(shard);
  }
}

void LaneTable::free_idle(Shard& shard) {
  shard.keeps_idle = false;
  for (std::size_t i = 0; i < shard.bucket_count; ++i) {
    Lane** link = &shard.buckets[i];
    while (*link != nullptr) {
      if (!free_if_idle(shard, *link)) link = &(*link)->next_in_bucket_;
    }
  }
}

void LaneTable::resize(Shard& shard, std::size_t bucket_count) {
  Buckets buckets = make_buckets(bucket_count);
  for (std::size_t i = 0; i < shard.bucket_count; ++i) {
    while (Lane* lane = shard.buckets[i]) {
      shard.buckets[i] = lane->next_in_bucket_;
      Lane*& bucket = buckets[lane->hash() & (bucket_count - 1)];
      lane->next_in_bucket_ = bucket;
      bucket = lane;
    }
  }
  shard.buckets = std::move(buckets);
  shard.bucket_count = bucket_count;
}

LaneTable::Buckets LaneTable::make_buckets(std::size_t count) {
  if (count < kPageOfBuckets) return Buckets(new Lane* [count] {}, FreeBuckets{count});
  void* memory = mmap(nullptr, count * sizeof(Lane*), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return Buckets(static_cast<Lane**>(memory), FreeBuckets{count});
}

void FreeBuckets::operator()(Lane** buckets) const noexcept {
  if (count < kPageOfBuckets) {
    delete[] buckets;
  } else {
    munmap(static_cast<void*>(buckets), count * sizeof(Lane*));
  }
}

void LaneTable::destroy(Lane* lane) {
  lane->~Lane();
  detail::deallocate_block(lane, sizeof(Lane));
}

}  // namespace keyway
