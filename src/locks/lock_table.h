// The locks that somebody holds or waits for, by key: the state behind KeyLocks.
//
// One spin lock per shard is taken once to lock and once to unlock. A shard has room for one key in its own cache
// line, which is all that most locks ever touch; a key that finds it taken gets a block of its own.
//
// A hold is counted for the operation that took it, and belongs to owner_of() that. Who wants a lock may have it when
// all holds that are in the way are its own, or belong to operations of which it is a part: so a branch of when_all()
// may lock what its parent has locked, but two branches exclude each other.
//
// Thread safety: every method from any thread. Nobody is woken, and no user code runs, under a shard's lock.
// Lifetime: when it is destroyed, nobody may hold or wait for a lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash_key.h"
#include "base/spin_lock.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/lock_waiter.h"
#include "keyway/detail/short_text.h"
#include "lanes/waiter_list.h"
#include "locks/lock_holds.h"

namespace keyway::detail {

// A key that is held, or waited for.
struct LockEntry {
  std::string_view key() const {
    return {key_size <= sizeof short_key ? short_key : extra->long_key.get(), key_size};
  }

  // What is touched when nobody else is there.
  std::size_t hash = 0;
  LockHold hold;  // the first; all 0: none
  std::uint16_t key_size = 0;
  bool plain = true;  // no waiters, no extra
  char short_key[29];

  WaiterList waiters;
  LockEntry* next = nullptr;  // in its bucket
  struct Extra {
    std::unique_ptr<char[]> long_key;
    OtherHolds others;  // empty if the first is not held
  };
  std::unique_ptr<Extra> extra;  // null: neither
};

class LockTable {
 public:
  LockTable() = default;
  ~LockTable();
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;

  static std::size_t hash(std::string_view key) { return hash_key(key); }
  // The id of the lock in the WaitGraph: never 0. Two locks have the same one in 2^63 pairs.
  std::uint64_t lock_id(std::size_t hash) const {
    return (hash ^ reinterpret_cast<std::uintptr_t>(this) * 0x9e3779b97f4a7c15U) | 1;
  }

  // The lock, if it can be had without waiting; else null. `id`: of the operation, 0 if that is null.
  [[gnu::always_inline]] LockEntry* try_acquire(std::string_view key, std::size_t hash,
                                                const Operation* operation, std::uint64_t id,
                                                LockMode mode) {
    Shard& shard = shard_of(hash);
    SpinGuard guard(shard.lock);
    if (shard.used == 0 && key.size() <= sizeof shard.first.short_key) [[likely]] {
      shard.used = Shard::kFirst;
      fill(shard.first, key, hash);
      shard.first.hold = LockHold::once(id, mode);
      return &shard.first;
    }
    return try_acquire_crowded(shard, key, hash, operation, mode);
  }
  // Who has to wait stands in line behind all others, or before them if it holds the lock in some way already.
  enum class Entered { kHasIt, kIsFirst, kWaits, kCancelled };  // kIsFirst: in line
  Entered acquire_or_wait(std::string_view key, std::size_t hash, LockWaiter& waiter);
  // The waiters that a change concerns. The caller of the change tells them, under no lock.
  struct News {
    Waiter* granted = nullptr;  // a chain by `next`
    const detail::Atomic<std::uint32_t>* comes_first = nullptr;
    void tell() const;
  };
  // True if it still stood in line. If it `cancels`, it does not get into it later either.
  bool withdraw(std::size_t hash, LockWaiter& waiter, bool cancels, News& news);

  // What one hold was, as long as it is not given back.
  struct Held {
    LockEntry* entry = nullptr;
    std::uint64_t operation = 0;
    LockMode mode = LockMode::kExclusive;
  };
  [[gnu::always_inline]] void release(const Held& held) {
    Shard& shard = shard_of(held.entry->hash);
    News news;
    {
      SpinGuard guard(shard.lock);
      const bool last = held.entry->hold == LockHold::once(held.operation, held.mode);
      if (held.entry == &shard.first && last && held.entry->plain) [[likely]] {
        shard.first.hold = {};
        shard.used &= static_cast<std::uint8_t>(~Shard::kFirst);
        return;
      }
      news = release_crowded(shard, held);
    }
    news.tell();
  }
  // One hold of `key`, that of `operation` if it has one. Gives whose it was; none if nobody holds it in this mode.
  std::optional<std::uint64_t> release_one(std::string_view key, std::size_t hash,
                                           std::uint64_t operation, LockMode mode);
  // The hold belongs to nobody from now on.
  void disown(const Held& held);
  // See WantedLock. Both return those who are to be told.
  Waiter* look_again(std::string_view key, std::size_t hash);
  Waiter* refuse(std::size_t hash, LockWaiter& waiter, Error error);

  // Calls visit(const LockEntry*), null if there is none, under the shard's lock.
  template <class Visit>
  auto with_entry(std::string_view key, std::size_t hash, Visit visit) const {
    const Shard& shard = shard_of(hash);
    SpinGuard guard(shard.lock);
    return visit(find(shard, key, hash));
  }
  std::size_t size() const;
  // A key that is held or waited for; none if there is none.
  std::optional<std::string> any_key() const;

 private:
  static constexpr std::size_t kShards = 64;

  struct alignas(128) Shard {
    mutable SpinLock<LockRank::kLockTable> lock;
    static constexpr std::uint8_t kFirst = 1;
    static constexpr std::uint8_t kBuckets = 2;
    std::uint8_t used KEYWAY_GUARDED_BY(lock) = 0;  // what there is to look at
    mutable LockEntry first KEYWAY_GUARDED_BY(lock);
    // The others, in buckets.
    std::unique_ptr<LockEntry*[]> buckets KEYWAY_GUARDED_BY(lock);
    std::uint32_t bucket_count KEYWAY_GUARDED_BY(lock) = 0;  // 0, or a power of two
    std::uint32_t in_buckets KEYWAY_GUARDED_BY(lock) = 0;
  };

  const Shard& shard_of(std::size_t hash) const { return shards_[(hash >> 48) % kShards]; }
  Shard& shard_of(std::size_t hash) { return shards_[(hash >> 48) % kShards]; }
  static void fill(LockEntry& entry, std::string_view key, std::size_t hash) {
    entry.hash = hash;
    entry.key_size = static_cast<std::uint16_t>(key.size());
    copy_text(entry.short_key, key);
  }
  static LockEntry* try_acquire_crowded(Shard& shard, std::string_view key, std::size_t hash,
                                        const Operation* operation, LockMode mode)
      KEYWAY_REQUIRES(shard.lock);
  static LockEntry* find(const Shard& shard, std::string_view key, std::size_t hash)
      KEYWAY_REQUIRES(shard.lock);
  static LockEntry* find_in_buckets(const Shard& shard, std::string_view key, std::size_t hash)
      KEYWAY_REQUIRES(shard.lock);
  static LockEntry& make(Shard& shard, std::string_view key, std::size_t hash)
      KEYWAY_REQUIRES(shard.lock);
  static LockEntry& make_in_buckets(Shard& shard, std::size_t hash) KEYWAY_REQUIRES(shard.lock);
  static void resize(Shard& shard, std::uint32_t count) KEYWAY_REQUIRES(shard.lock);
  static void free(Shard& shard, LockEntry& entry) KEYWAY_REQUIRES(shard.lock);
  static void free_in_buckets(Shard& shard, LockEntry& entry) KEYWAY_REQUIRES(shard.lock);
  // Who is next gets the lock, if it can; the entry goes if nobody is there any more.
  static News release_crowded(Shard& shard, const Held& held) KEYWAY_REQUIRES(shard.lock);
  static News pass_on(Shard& shard, LockEntry& entry) KEYWAY_REQUIRES(shard.lock);

  static_assert(sizeof(Shard) == 128);

  std::array<Shard, kShards> shards_;
};

// REQUIRES, as what follows: the lock of the entry's shard. In the order of the operations' ids.
std::vector<LockHold> holds_of(const LockEntry& entry);

// Who is in the way of `operation`, if it wants the lock and stands, or would stand, at `waiter`'s place: the ids
// of their operations.
std::vector<std::uint64_t> holders_in_the_way(const LockEntry& entry, const Operation& operation,
                                              LockMode mode, const LockWaiter* waiter);

}  // namespace keyway::detail
