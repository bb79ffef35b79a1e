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

template <class Test>  // bool test(const LockHold&)
bool all_holds(const LockEntry& entry, Test test) {
  if (!is_held(entry)) return true;
  if (!test(entry.hold)) return false;
  return entry.plain || entry.extra == nullptr ||
         std::all_of(entry.extra->others.begin(), entry.extra->others.end(), test);
}

bool conflicts(const LockHold& hold, LockMode mode) {
  return mode == LockMode::kExclusive || hold.exclusive > 0;
}

bool may_hold(const LockEntry& entry, const Operation* operation, LockMode mode) {
  return all_holds(entry, [&](const LockHold& hold) {
    return !conflicts(hold, mode) || is_within(operation, hold.operation);
  });
}

bool reenters(const LockEntry& entry, const Operation* operation) {
  return operation != nullptr && !all_holds(entry, [&](const LockHold& hold) {
           return !operation->is_within(hold.operation);
         });
}

void count(LockHold& hold, LockMode mode) {
  ++(mode == LockMode::kExclusive ? hold.exclusive : hold.shared);
}

template <class Test>
LockHold* find_hold_if(LockEntry& entry, Test test) {
  if (is_held(entry) && test(entry.hold)) return &entry.hold;
  if (entry.plain || entry.extra == nullptr) return nullptr;
  const auto found = std::find_if(entry.extra->others.begin(), entry.extra->others.end(), test);
  return found == entry.extra->others.end() ? nullptr : &*found;
}

LockHold* find_hold(LockEntry& entry, std::uint64_t operation) {
  return find_hold_if(entry, [&](const LockHold& hold) { return hold.operation == operation; });
}

LockEntry::Extra& extra_of(LockEntry& entry) {
  if (entry.extra == nullptr) entry.extra = std::make_unique<LockEntry::Extra>();
  entry.plain = false;
  return *entry.extra;
}

void add_hold(LockEntry& entry, std::uint64_t operation, LockMode mode) {
  LockHold* hold = find_hold(entry, operation);
  if (hold == nullptr) {
    hold = is_held(entry) ? &extra_of(entry).others.emplace_back() : &entry.hold;
    hold->operation = operation;
  }
  count(*hold, mode);
}

void remove_hold(LockEntry& entry, LockHold& hold, LockMode mode) {
  std::uint32_t& times = mode == LockMode::kExclusive ? hold.exclusive : hold.shared;
  KEYWAY_CHECK(times > 0, "a lock is released that is not held");
  if (--times > 0 || (hold.exclusive | hold.shared) != 0) return;
  hold.operation = 0;
  if (entry.plain || entry.extra == nullptr || entry.extra->others.empty()) return;
  std::swap(hold, entry.extra->others.back());
  entry.extra->others.pop_back();
}

}  // namespace

LockTable::~LockTable() {
  KEYWAY_CHECK(size() == 0, "a KeyLocks is destroyed while somebody holds or waits for a lock");
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
  waiter.again ? entry->waiters.push_front(waiter) : entry->waiters.push_back(waiter);
  entry->plain = false;
  return entry->waiters.front() == &waiter ? Entered::kIsFirst : Entered::kWaits;
}

bool LockTable::withdraw(std::size_t hash, LockWaiter& waiter, bool cancels) {
  Shard& shard = shard_of(hash);
  News news;
  {
    SpinGuard guard(shard.lock);
    if (waiter.entry == nullptr && cancels) {
      waiter.cancelled = true;
      return false;
    }
    if (!WaiterList::linked(waiter)) return false;
    WaiterList::unlink(waiter);
    waiter.cancelled = cancels;
    news = pass_on(shard, *waiter.entry);
  }
  news.tell();
  return true;
}

LockTable::News LockTable::release_crowded(Shard& shard, const Held& held) {
  LockHold* hold = find_hold(*held.entry, held.operation);
  KEYWAY_CHECK(hold != nullptr, "a lock is released that is not held");
  remove_hold(*held.entry, *hold, held.mode);
  return pass_on(shard, *held.entry);
}

std::optional<std::uint64_t> LockTable::release_one(std::string_view key, std::size_t hash,
                                                    std::uint64_t operation, LockMode mode) {
  Shard& shard = shard_of(hash);
  News news;
  std::uint64_t owner = 0;
  {
    SpinGuard guard(shard.lock);
    LockEntry* entry = find(shard, key, hash);
    if (entry == nullptr) return std::nullopt;
    const auto has_mode = [&](const LockHold& hold) {
      return (mode == LockMode::kExclusive ? hold.exclusive : hold.shared) > 0;
    };
    LockHold* hold = find_hold(*entry, operation);
    if (hold == nullptr || !has_mode(*hold)) hold = find_hold_if(*entry, has_mode);
    if (hold == nullptr) return std::nullopt;
    owner = hold->operation;
    remove_hold(*entry, *hold, mode);
    news = pass_on(shard, *entry);
  }
  news.tell();
  return owner;
}

void LockTable::disown(const Held& held) {
  Shard& shard = shard_of(held.entry->hash);
  SpinGuard guard(shard.lock);
  LockHold* hold = find_hold(*held.entry, held.operation);
  KEYWAY_CHECK(hold != nullptr, "a lock is given away that is not held");
  add_hold(*held.entry, 0, held.mode);
  remove_hold(*held.entry, *find_hold(*held.entry, held.operation), held.mode);
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
  for (Waiter* next = granted; next != nullptr;) {
    auto& waiter = static_cast<LockWaiter&>(*next);
    next = next->next;
    waiter.granted();
  }
  if (comes_first != nullptr) futex_wake_one(*comes_first);
}

std::vector<LockHold> holds_of(const LockEntry& entry) {
  std::vector<LockHold> holds;
  all_holds(entry, [&](const LockHold& hold) {
    holds.push_back(hold);
    return true;
  });
  return holds;
}

namespace {

// Waiters ahead of `waiter` get the lock first, and then need a thread and perhaps permits to go
// on. Only the next one ahead is added, because its own wait depends on those before it. A waiter
// with a timeout may leave the line, so the search goes on past it.
void add_those_in_front(const LockEntry& entry, const Operation& operation,
                        const LockWaiter* waiter, std::vector<std::uint64_t>& found) {
  const bool stands_in_line = waiter != nullptr && WaiterList::linked(*waiter);
  const Waiter* place = stands_in_line ? waiter : nullptr;  // null: the end of the line
  while ((place = entry.waiters.in_front_of(place)) != nullptr) {
    const auto& ahead = static_cast<const LockWaiter&>(*place);
    if (ahead.operation != nullptr && !operation.is_within(ahead.operation->id())) {
      found.push_back(ahead.operation->id());
    }
    if (ahead.operation != nullptr && !ahead.bounded) return;
  }
}

}  // namespace

// A shared request does not conflict with shared holds. But if an exclusive waiter stands ahead of
// it, that waiter needs all holders to release, so all of them are in the way.
std::vector<std::uint64_t> holders_in_the_way(const LockEntry& entry, const Operation& operation,
                                              LockMode mode, const LockWaiter* waiter) {
  std::vector<std::uint64_t> found;
  bool all = mode == LockMode::kExclusive ||
             all_holds(entry, [](const LockHold& hold) { return hold.exclusive > 0; });
  for (auto one = entry.waiters.begin(); !all && one != entry.waiters.end(); ++one) {
    if (&*one == waiter) break;
    const auto& ahead = static_cast<const LockWaiter&>(*one);
    all = ahead.mode == LockMode::kExclusive && !ahead.bounded;
  }
  all_holds(entry, [&](const LockHold& hold) {
    if ((all || hold.exclusive > 0) && !operation.is_within(hold.operation)) {
      found.push_back(hold.operation);
    }
    return true;
  });
  // An operation that already holds the lock is granted it ahead of the line.
  const bool holds =
      !all_holds(entry, [&](const LockHold& hold) { return !operation.is_within(hold.operation); });
  if (!holds) add_those_in_front(entry, operation, waiter, found);
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
