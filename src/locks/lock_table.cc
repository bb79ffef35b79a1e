#include "locks/lock_table.h"

#include <algorithm>
#include <utility>

#include "base/futex.h"
#include "keyway/detail/check.h"
#include "keyway/detail/short_text.h"

namespace keyway::detail {

namespace {

constexpr std::uint32_t kFewestBuckets = 8;

std::uint64_t id_of(const Operation* operation) {
  return operation == nullptr ? 0 : operation->id();
}

bool is_within(const Operation* operation, std::uint64_t id) {
  return operation != nullptr && operation->is_within(id);
}

bool is_held(const LockEntry& entry) { return (entry.hold.exclusive | entry.hold.shared) != 0; }

bool has_others(const LockEntry& entry) {
  return !entry.plain && entry.extra != nullptr && !entry.extra->others.empty();
}

template <class Test>  // bool test(const LockHold&)
bool all_holds(const LockEntry& entry, Test test) {
  if (!is_held(entry)) return true;
  if (!test(entry.hold)) return false;
  return !has_others(entry) || std::all_of(entry.extra->others.begin(), entry.extra->others.end(),
                                           [&](const auto& other) { return test(other.second); });
}

bool conflicts(const LockHold& hold, LockMode mode) {
  return mode == LockMode::kExclusive || hold.exclusive > 0;
}

// Constant time, however many share the lock: a shared request looks at them only if one of them is exclusive, and an
// exclusive one stops at the first that is not its own.
bool may_hold(const LockEntry& entry, const Operation* operation, LockMode mode) {
  const auto allows = [&](const LockHold& hold) {
    return !conflicts(hold, mode) || is_within(operation, hold.operation);
  };
  const bool only_shared =
      mode == LockMode::kShared && has_others(entry) && !entry.extra->others.has_exclusive();
  return only_shared ? allows(entry.hold) : all_holds(entry, allows);
}

// Whether the operation or one of its parents holds the lock.
bool reenters(const LockEntry& entry, const Operation* operation) {
  const Operation* holds_locks = operation;
  while (holds_locks != nullptr && holds_locks->locks_held() == 0) {
    holds_locks = holds_locks->parent();
  }
  if (holds_locks == nullptr || !is_held(entry)) return false;
  if (operation->is_within(entry.hold.operation)) return true;
  if (!has_others(entry)) return false;
  const OtherHolds& others = entry.extra->others;
  for (const Operation* one = holds_locks; one != nullptr; one = one->parent()) {
    if (one->locks_held() > 0 && one->has_id() && others.contains(one->id())) return true;
  }
  return others.has_parts() && std::any_of(others.begin(), others.end(), [&](const auto& other) {
           return operation->is_within(other.second.operation);
         });
}

// The first in line who does not hold the lock already, or the end of the line.
const Waiter* after_holders(const LockEntry& entry) {
  const Waiter* place = entry.waiters.front();
  while (place != entry.waiters.end_marker() && static_cast<const LockWaiter*>(place)->again) {
    place = place->next;
  }
  return place;
}

void count(LockHold& hold, LockMode mode) {
  ++(mode == LockMode::kExclusive ? hold.exclusive : hold.shared);
}

LockEntry::Extra& extra_of(LockEntry& entry) {
  if (entry.extra == nullptr) entry.extra = std::make_unique<LockEntry::Extra>();
  entry.plain = false;
  return *entry.extra;
}

void add_hold(LockEntry& entry, std::uint64_t operation, LockMode mode) {
  if (!is_held(entry)) entry.hold.operation = operation;
  if (entry.hold.operation == operation) return count(entry.hold, mode);
  OtherHolds& others = extra_of(entry).others;
  LockHold hold = others.extract(operation);
  hold.operation = operation;
  count(hold, mode);
  others.insert(hold);
}

void remove_hold(LockEntry& entry, std::uint64_t operation, LockMode mode) {
  const auto remove_once = [&](LockHold& hold) {
    std::uint32_t& times = mode == LockMode::kExclusive ? hold.exclusive : hold.shared;
    KEYWAY_CHECK(times > 0, "a lock is released that is not held");
    --times;
    return (hold.exclusive | hold.shared) != 0;
  };
  if (is_held(entry) && entry.hold.operation == operation) {
    if (remove_once(entry.hold)) return;
    entry.hold = has_others(entry) ? entry.extra->others.extract_any() : LockHold{};
    return;
  }
  KEYWAY_CHECK(has_others(entry), "a lock is released that is not held");
  LockHold hold = entry.extra->others.extract(operation);
  if (remove_once(hold)) entry.extra->others.insert(hold);
}

// The operation of the first hold for which the test is true.
template <class Test>  // bool test(const LockHold&)
std::optional<std::uint64_t> find_holder(const LockEntry& entry, Test test) {
  std::optional<std::uint64_t> found;
  all_holds(entry, [&](const LockHold& hold) {
    if (test(hold)) found = hold.operation;
    return !found;
  });
  return found;
}

// Of which operation a hold is released by `operation`: its own, or one of a part of it that has ended, otherwise any.
std::optional<std::uint64_t> holder_to_release(const LockEntry& entry, std::uint64_t operation,
                                               LockMode mode) {
  const auto has_mode = [&](const LockHold& hold) {
    return (mode == LockMode::kExclusive ? hold.exclusive : hold.shared) > 0;
  };
  const auto is_its_own = [&](const LockHold& hold) {
    return has_mode(hold) && owner_of(hold.operation) == operation;
  };
  if (is_its_own(entry.hold)) return entry.hold.operation;
  if (has_others(entry)) {
    const OtherHolds& others = entry.extra->others;
    const LockHold* own = others.find(operation);
    if (own != nullptr && has_mode(*own)) return operation;
    for (auto one = others.begin(); others.has_parts() && one != others.end(); ++one) {
      if (is_its_own(one->second)) return one->first;
    }
  }
  return find_holder(entry, has_mode);
}

}  // namespace

LockTable::~LockTable() {
  KEYWAY_CHECK(size() == 0, "a KeyLocks is destroyed while a lock is held or waited for");
}

std::optional<std::string> LockTable::any_key() const {
  for (const Shard& shard : shards_) {
    const SpinGuard guard(shard.lock);
    if ((shard.used & Shard::kFirst) != 0) return std::string(shard.first.key());
    for (std::uint32_t i = 0; i < shard.bucket_count; ++i) {
      if (shard.buckets[i] != nullptr) return std::string(shard.buckets[i]->key());
    }
  }
  return std::nullopt;
}

LockEntry* LockTable::try_acquire_crowded(Shard& shard, std::string_view key, std::size_t hash,
                                          const Operation* operation, LockMode mode) {
  LockEntry* entry = find(shard, key, hash);
  if (entry == nullptr) {
    entry = &make(shard, key, hash);
  } else {
    const bool its_turn = entry->plain || entry->waiters.empty() || reenters(*entry, operation);
    if (!its_turn || !may_hold(*entry, operation, mode)) return nullptr;
  }
  add_hold(*entry, id_of(operation), mode);
  return entry;
}

LockTable::Entered LockTable::acquire_or_wait(std::string_view key, std::size_t hash,
                                              LockWaiter& waiter) {
  const std::uint64_t id = id_of(waiter.operation);
  Shard& shard = shard_of(hash);
  SpinGuard guard(shard.lock);
  if (waiter.cancelled) return Entered::kCancelled;
  LockEntry* entry = find(shard, key, hash);
  if (entry == nullptr) entry = &make(shard, key, hash);
  waiter.entry = entry;
  waiter.again = reenters(*entry, waiter.operation);
  const bool its_turn = entry->waiters.empty() || waiter.again;
  if (its_turn && may_hold(*entry, waiter.operation, waiter.mode)) {
    add_hold(*entry, id, waiter.mode);
    return Entered::kHasIt;
  }
  WaiterList::insert_before(waiter.again ? *after_holders(*entry) : *entry->waiters.end_marker(),
                            waiter);
  entry->plain = false;
  return entry->waiters.front() == &waiter ? Entered::kIsFirst : Entered::kWaits;
}

bool LockTable::withdraw(std::size_t hash, LockWaiter& waiter, bool cancels, News& news) {
  Shard& shard = shard_of(hash);
  SpinGuard guard(shard.lock);
  if (waiter.entry == nullptr && cancels) {
    waiter.cancelled = true;
    return false;
  }
  if (!WaiterList::linked(waiter)) return false;
  WaiterList::unlink(waiter);
  waiter.cancelled = cancels;
  news = pass_on(shard, *waiter.entry);
  return true;
}

LockTable::News LockTable::release_crowded(Shard& shard, const Held& held) {
  remove_hold(*held.entry, held.operation, held.mode);
  return pass_on(shard, *held.entry);
}

std::optional<std::uint64_t> LockTable::release_one(std::string_view key, std::size_t hash,
                                                    std::uint64_t operation, LockMode mode) {
  Shard& shard = shard_of(hash);
  News news;
  std::optional<std::uint64_t> holder;
  {
    SpinGuard guard(shard.lock);
    LockEntry* entry = find(shard, key, hash);
    if (entry == nullptr) return std::nullopt;
    holder = holder_to_release(*entry, operation, mode);
    if (!holder) return std::nullopt;
    remove_hold(*entry, *holder, mode);
    news = pass_on(shard, *entry);
  }
  news.tell();
  return holder;
}

void LockTable::disown(const Held& held) {
  Shard& shard = shard_of(held.entry->hash);
  SpinGuard guard(shard.lock);
  add_hold(*held.entry, 0, held.mode);
  remove_hold(*held.entry, held.operation, held.mode);
}

Waiter* LockTable::look_again(std::string_view key, std::size_t hash) {
  Shard& shard = shard_of(hash);
  News news;
  {
    SpinGuard guard(shard.lock);
    LockEntry* entry = find(shard, key, hash);
    if (entry == nullptr || entry->waiters.empty()) return nullptr;
    // Those who now hold the lock already move to the front, in their order.
    const Waiter* place = after_holders(*entry);
    for (Waiter* one = const_cast<Waiter*>(place); one != entry->waiters.end_marker();) {
      auto& waiter = static_cast<LockWaiter&>(*one);
      one = one->next;
      if (!reenters(*entry, waiter.operation)) continue;
      waiter.again = true;
      if (place == &waiter) {
        place = one;
        continue;
      }
      WaiterList::unlink(waiter);
      WaiterList::insert_before(*place, waiter);
    }
    news = pass_on(shard, *entry);
  }
  if (news.comes_first != nullptr) futex_wake_one(*news.comes_first);
  return news.granted;
}

Waiter* LockTable::refuse(std::size_t hash, LockWaiter& waiter, Error error) {
  Shard& shard = shard_of(hash);
  News news;
  {
    SpinGuard guard(shard.lock);
    if (!WaiterList::linked(waiter)) return nullptr;
    WaiterList::unlink(waiter);
    waiter.refusal = std::make_unique<Error>(std::move(error));
    news = pass_on(shard, *waiter.entry);
  }
  if (news.comes_first != nullptr) futex_wake_one(*news.comes_first);
  waiter.next = news.granted;
  return &waiter;
}

std::size_t LockTable::size() const {
  std::size_t sum = 0;
  for (const Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    sum += shard.in_buckets + (shard.used & Shard::kFirst);
  }
  return sum;
}

// ---- who is next

// Those who hold it already stand before all others. One of them may wait for what another lets go, so each of them
// is looked at; who stands behind one that cannot go on waits too.
LockTable::News LockTable::pass_on(Shard& shard, LockEntry& entry) {
  News news;
  if (!entry.plain) [[unlikely]] {
    Waiter** last = &news.granted;
    bool held_up = false;
    for (Waiter* one = entry.waiters.front(); one != entry.waiters.end_marker();) {
      auto& next = static_cast<LockWaiter&>(*one);
      one = one->next;
      if (held_up && !next.again) break;
      if (!may_hold(entry, next.operation, next.mode)) {
        held_up = true;
        continue;
      }
      WaiterList::unlink(next);
      add_hold(entry, id_of(next.operation), next.mode);
      *last = &next;
      last = &next.next;
    }
    *last = nullptr;
    const bool somebody_waits = !entry.waiters.empty();
    if (somebody_waits) {
      news.comes_first = static_cast<LockWaiter&>(*entry.waiters.front()).comes_first();
    }
    entry.plain = !somebody_waits && entry.extra == nullptr;
    if (somebody_waits) return news;
  }
  if (!is_held(entry)) free(shard, entry);
  return news;
}

void LockTable::News::tell() const {
  if (comes_first != nullptr) futex_wake_one(*comes_first);
  LockWaiter::tell_granted(granted);
}

std::vector<LockHold> holds_of(const LockEntry& entry) {
  std::vector<LockHold> holds;
  all_holds(entry, [&](const LockHold& hold) {
    holds.push_back(hold);
    return true;
  });
  std::sort(holds.begin(), holds.end(),
            [](const LockHold& a, const LockHold& b) { return a.operation < b.operation; });
  return holds;
}

namespace {

// The holders that a waiter behind others depends on.
enum class InTheWay { kThoseInConflict, kAll, kNone };  // kNone: by way of the waiters ahead only

// Adds the waiters ahead of `waiter`: they get the lock first, and then need a thread and perhaps permits to go on. Only
// the next waiter ahead is added, because its own wait depends on the waiters before it. The search goes on past a waiter
// that may leave the line, by a timeout or a race, and past a waiter outside the graph: a thread that holds nothing, or a
// waiter whose wait was just refused. An exclusive waiter ahead needs all holders to release, and so do the waiters behind
// it: they depend on the holders through the added waiter, if that is the exclusive one or stands behind it.
InTheWay add_those_in_front(const LockEntry& entry, const Operation& operation,
                            const LockWaiter* waiter, std::vector<std::uint64_t>& found) {
  const bool stands_in_line = waiter != nullptr && WaiterList::linked(*waiter);
  const Waiter* place = stands_in_line ? waiter : nullptr;  // null: the end of the line
  bool has_next = false;
  InTheWay holders = InTheWay::kThoseInConflict;
  while ((place = entry.waiters.in_front_of(place)) != nullptr) {
    const auto& ahead = static_cast<const LockWaiter&>(*place);
    const bool is_added = ahead.operation != nullptr && !operation.is_within(ahead.operation->id());
    if (is_added && !has_next) found.push_back(ahead.operation->id());
    const bool may_leave =
        ahead.bounded || (ahead.operation != nullptr && ahead.operation->is_in_race());
    if (may_leave) continue;
    has_next = has_next || (is_added && ahead.in_graph);
    if (ahead.mode == LockMode::kShared) continue;
    holders = InTheWay::kAll;
    // Of a waiter that holds the lock already, the wait does not depend on its own hold.
    if (!ahead.again && has_next) return InTheWay::kNone;
  }
  return holders;
}

}  // namespace

// An operation that already holds the lock is granted it ahead of the line.
std::vector<std::uint64_t> holders_in_the_way(const LockEntry& entry, const Operation& operation,
                                              LockMode mode, const LockWaiter* waiter) {
  std::vector<std::uint64_t> found;
  const InTheWay holders = reenters(entry, &operation)
                               ? InTheWay::kThoseInConflict
                               : add_those_in_front(entry, operation, waiter, found);
  if (holders == InTheWay::kNone) return found;
  all_holds(entry, [&](const LockHold& hold) {
    if ((holders == InTheWay::kAll || conflicts(hold, mode)) &&
        !operation.is_within(hold.operation)) {
      found.push_back(owner_of(hold.operation));
    }
    return true;
  });
  return found;
}

// ---- entries

LockEntry* LockTable::find(const Shard& shard, std::string_view key, std::size_t hash) {
  const bool is_first = (shard.used & Shard::kFirst) != 0 && shard.first.hash == hash &&
                        same_text(shard.first.key(), key);
  if (is_first) return &shard.first;
  return (shard.used & Shard::kBuckets) != 0 ? find_in_buckets(shard, key, hash) : nullptr;
}

LockEntry* LockTable::find_in_buckets(const Shard& shard, std::string_view key, std::size_t hash) {
  LockEntry* entry = shard.buckets[hash & (shard.bucket_count - 1)];
  while (entry != nullptr && !(entry->hash == hash && same_text(entry->key(), key))) {
    entry = entry->next;
  }
  return entry;
}

LockEntry& LockTable::make(Shard& shard, std::string_view key, std::size_t hash) {
  std::unique_ptr<LockEntry::Extra> extra;
  if (key.size() > sizeof shard.first.short_key) [[unlikely]] {
    extra = std::make_unique<LockEntry::Extra>();
    extra->long_key = std::make_unique<char[]>(key.size());
  }
  const bool is_first = (shard.used & Shard::kFirst) == 0;
  LockEntry& entry = is_first ? shard.first : make_in_buckets(shard, hash);
  if (is_first) shard.used |= Shard::kFirst;
  if (extra == nullptr) [[likely]] {
    fill(entry, key, hash);
    return entry;
  }
  copy_text(extra->long_key.get(), key);
  entry.hash = hash;
  entry.key_size = static_cast<std::uint16_t>(key.size());
  entry.extra = std::move(extra);
  entry.plain = false;
  return entry;
}

LockEntry& LockTable::make_in_buckets(Shard& shard, std::size_t hash) {
  if (shard.in_buckets >= shard.bucket_count) {
    resize(shard, std::max(kFewestBuckets, shard.bucket_count * 2));
  }
  auto* entry = new LockEntry;
  LockEntry*& bucket = shard.buckets[hash & (shard.bucket_count - 1)];
  entry->next = std::exchange(bucket, entry);
  ++shard.in_buckets;
  shard.used |= Shard::kBuckets;
  return *entry;
}

void LockTable::resize(Shard& shard, std::uint32_t count) {
  auto buckets = std::make_unique<LockEntry*[]>(count);
  for (std::uint32_t i = 0; i < shard.bucket_count; ++i) {
    LockEntry* entry = shard.buckets[i];
    while (entry != nullptr) {
      LockEntry* next = entry->next;
      entry->next = std::exchange(buckets[entry->hash & (count - 1)], entry);
      entry = next;
    }
  }
  shard.buckets = std::move(buckets);
  shard.bucket_count = count;
}

void LockTable::free(Shard& shard, LockEntry& entry) {
  if (&entry != &shard.first) return free_in_buckets(shard, entry);
  shard.used &= static_cast<std::uint8_t>(~Shard::kFirst);
  entry.extra.reset();
  entry.plain = true;
}

void LockTable::free_in_buckets(Shard& shard, LockEntry& entry) {
  LockEntry** link = &shard.buckets[entry.hash & (shard.bucket_count - 1)];
  while (*link != &entry) link = &(*link)->next;
  *link = entry.next;
  delete &entry;
  if (--shard.in_buckets == 0) shard.used &= static_cast<std::uint8_t>(~Shard::kBuckets);
  if (shard.bucket_count > kFewestBuckets && shard.in_buckets < shard.bucket_count / 8) {
    resize(shard, shard.bucket_count / 2);
  }
}

}  // namespace keyway::detail
