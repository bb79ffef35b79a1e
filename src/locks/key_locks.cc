#include "keyway/key_locks.h"

#include <algorithm>
#include <thread>

#include "base/human_text.h"
#include "base/quoted.h"
#include "base/spin_lock.h"
#include "keyway/key_lock.h"
#include "locks/async_lock.h"
#include "locks/lock_table.h"
#include "locks/lock_wait.h"
#include "runtime/current_task.h"
#include "runtime/thread_wakeup.h"
#include "runtime/time_after.h"

namespace keyway {

using detail::LockEntry;
using detail::LockTable;
using detail::LockWaiter;
using detail::Operation;

namespace {

// Longer than it takes to wake a sleeper: of two threads that want the same key in turn, the one that waits is still
// awake when the other, which had to be woken, has done its part; so both stay awake from then on. Most of it is
// yielding: whoever holds the lock may want this very core.
constexpr int kSpinsBeforeYield = spins_before_sleep(256);
constexpr int kYieldsBeforeSleep = spins_before_sleep(200);

// Only the first in line spins. The others sleep until they come first, and are awake when their turn comes: else
// more threads than cores would keep the one off its core whose turn it is.
class BlockedThread final : public LockWaiter {
 public:
  using LockWaiter::LockWaiter;

  void granted() noexcept override { wakeup_.wake(); }
  const detail::Atomic<std::uint32_t>* comes_first() noexcept override { return wakeup_.nudge(); }

  WaitEnd wait(bool is_first, const TimePoint* deadline, std::stop_token stop) {
    return block(*this, {.deadline = deadline,
                         .stop = std::move(stop),
                         .spins = is_first ? kSpinsBeforeYield : 0,
                         .yields = is_first ? kYieldsBeforeSleep : 0});
  }

  // Waitable. A nudge says that this waiter is now the first in line: it spins again.
  bool done() const { return wakeup_.done(); }
  std::uint32_t announce() { return wakeup_.announce(); }
  const detail::Atomic<std::uint32_t>& word() const { return wakeup_.word(); }
  void kick() { wakeup_.kick(); }
  bool spin_again() {
    return wakeup_.nudged() && spin_for(*this, kSpinsBeforeYield, kYieldsBeforeSleep);
  }

 private:
  ThreadWakeup wakeup_;
};

[[noreturn]] void throw_wait_ended(std::string_view key, WaitEnd end) {
  const std::string name = "key " + quoted(key);
  if (end == WaitEnd::kStopped) throw CancelledError("the wait for " + name + " was stopped");
  throw Exception({ErrorCode::kWaitCycle,
                   "waiting for " + name + " would never end: nothing is left that could run"});
}

std::size_t hash_of(std::string_view key) {
  require_key(key, "key");
  return LockTable::hash(key);
}

TimePoint now_of(const Scheduler* scheduler) {
  return scheduler != nullptr ? scheduler->now() : std::chrono::steady_clock::now();
}

}  // namespace

KeyLocks::KeyLocks(KeyLocksOptions options)
    : options_(std::make_shared<const KeyLocksOptions>(std::move(options))),
      logs_(static_cast<bool>(options_->debug_log)),
      table_(std::make_unique<LockTable>()) {}

KeyLocks::~KeyLocks() {
  const std::optional<std::string> key = table_->any_key();
  if (!key) return;
  const std::string message =
      "a KeyLocks is destroyed while a lock is held or waited for: " + explain(*key).text() +
      "; destroy it after its guards and waiters";
  KEYWAY_CHECK(!key, message.c_str());
}

// ---- taking a lock

KeyLocks::Guard KeyLocks::lock(std::string_view key, std::stop_token stop, LockMode mode) {
  const std::size_t hash = hash_of(key);
  if (stop.stop_requested()) {
    throw CancelledError("the lock of " + quoted(key) + " was not taken: stop was requested");
  }
  if (Guard guard = try_lock(key, mode)) return guard;
  return lock_waiting(key, hash, Operation::current(), mode, nullptr, std::move(stop));
}

KeyLocks::Guard KeyLocks::lock(std::string_view key, LockMode mode) {
  const std::size_t hash = hash_of(key);
  if (logs_) [[unlikely]]
    log_acquiring(key, hash);
  const Operation& operation = detail::CurrentTaskScope::current();
  const std::uint64_t id = operation.id_for_lock();
  LockEntry* entry = table_->try_acquire(key, hash, &operation, id, mode);
  if (entry == nullptr) [[unlikely]]
    return lock_waiting(key, hash, operation, mode, nullptr, {});
  operation.count_lock(table_->lock_id(hash));
  if (logs_) [[unlikely]]
    log_acquired(key);
  return {*this, *entry, id, mode};
}

KeyLocks::Guard KeyLocks::try_lock(std::string_view key, LockMode mode) {
  const std::size_t hash = hash_of(key);
  if (logs_) log_acquiring(key, hash);
  const Operation& operation = detail::CurrentTaskScope::current();
  const std::uint64_t id = operation.id_for_lock();
  LockEntry* entry = table_->try_acquire(key, hash, &operation, id, mode);
  if (entry == nullptr) return {};
  operation.count_lock(table_->lock_id(hash));
  if (logs_) log_acquired(key);
  return {*this, *entry, id, mode};
}

KeyLocks::Guard KeyLocks::try_lock_for(std::string_view key, Duration timeout, LockMode mode) {
  if (Guard guard = try_lock(key, mode)) return guard;
  if (timeout <= Duration::zero()) return {};
  return lock_waiting(key, LockTable::hash(key), Operation::current(), mode, &timeout, {});
}

KeyLocks::Guard KeyLocks::lock_waiting(std::string_view key, std::size_t hash,
                                       const Operation& operation, LockMode mode,
                                       const Duration* timeout, std::stop_token stop) {
  const TimePoint deadline =
      timeout == nullptr ? TimePoint::max() : time_after(now_of(operation.scheduler()), *timeout);
  const TimePoint* const until = bound_of(&deadline);
  BlockedThread waiter(&operation, mode, /*leaves=*/until != nullptr);
  detail::LockWait wait(*table_, key, hash, waiter);
  waiter.begin_clock(operation.scheduler());
  if (const Result<void> begun = wait.begin(/*blocks=*/true); !begun) {
    if (wait.leave_line()) throw Exception(begun.error());
  }
  if (wait.stands_in_line()) {
    const bool is_first = wait.entered() == LockTable::Entered::kIsFirst;
    const WaitEnd end = waiter.wait(is_first, until, stop);
    if (end != WaitEnd::kDone) {
      if (wait.leave_line()) {
        wait.end();
        if (end == WaitEnd::kTimedOut) return {};
        throw_wait_ended(key, end);
      }
      waiter.wait(is_first, nullptr, {});  // another thread has granted the lock, and is waking it
    }
  }
  wait.end();
  if (waiter.refusal != nullptr) throw Exception(*std::move(waiter.refusal));
  operation.count_lock(table_->lock_id(hash));
  if (logs_) log_acquired(key);
  return {*this, *waiter.entry, operation.id(), mode};
}

LockSet KeyLocks::lock_all(std::initializer_list<std::string_view> keys, LockMode mode) {
  return lock_sorted({keys.begin(), keys.end()}, mode);
}

LockSet KeyLocks::lock_sorted(std::vector<std::string_view> keys, LockMode mode) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  LockSet set;
  set.guards_.reserve(keys.size());
  for (const std::string_view key : keys) set.guards_.push_back(lock(key, mode));
  return set;
}

Task<LockSet> KeyLocks::lock_all_async(std::vector<std::string> keys, LockMode mode) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  LockSet set;
  set.guards_.reserve(keys.size());
  for (const std::string& key : keys) set.guards_.push_back(co_await lock_async(key, mode));
  co_return set;
}

KeyLock::KeyLock(KeyLocks& locks, std::string_view key) : locks_(&locks), key_(key) {
  require_key(key, "key");
}

// ---- in a coroutine

KeyLocks::LockAwaiter KeyLocks::lock_async(std::string_view key, LockMode mode) {
  require_key(key, "key");
  return {*this, key, mode};
}

KeyLocks::LockAwaiter::LockAwaiter(KeyLocks& locks, std::string_view key, LockMode mode)
    : locks_(locks), key_(key), mode_(mode) {}

KeyLocks::LockAwaiter::~LockAwaiter() = default;

void KeyLocks::LockAwaiter::throw_timed_out(Duration timeout) const {
  throw TimeoutError("key " + quoted(key_) + " was not free within " + human_duration(timeout));
}

bool KeyLocks::LockAwaiter::suspend(std::coroutine_handle<> coroutine,
                                    const detail::TaskContext* context) {
  KEYWAY_CHECK(!std::exchange(is_awaited_, true),
               "what lock_async() returned is awaited a second time; call lock_async() again");
  const std::size_t hash = LockTable::hash(key_);
  if (locks_.logs_) locks_.log_acquiring(key_, hash);
  const Operation* operation = context != nullptr ? &context->operation : nullptr;
  const std::uint64_t id = operation != nullptr ? operation->id_for_lock() : 0;
  if (LockEntry* entry = locks_.table_->try_acquire(key_, hash, operation, id, mode_)) {
    if (operation != nullptr) operation->count_lock(locks_.table_->lock_id(hash));
    guard_ = Guard(locks_, *entry, id, mode_);
    return false;
  }
  waiting_ = std::make_unique<detail::AsyncLock>(*locks_.table_, key_, hash, mode_, context);
  return waiting_->begin(coroutine);
}

KeyLocks::Guard KeyLocks::LockAwaiter::await_resume() {
  if (waiting_ != nullptr) {
    const LockTable::Held held = waiting_->end();
    guard_ = Guard(locks_, *held.entry, held.operation, held.mode);
  }
  if (locks_.logs_) locks_.log_acquired(key_);
  return std::move(guard_);
}

// ---- giving it back

void KeyLocks::release(const Guard& guard, const char* signal) noexcept {
  if (logs_) [[unlikely]]
    return release_logging(guard, signal);
  const Operation& operation = detail::CurrentTaskScope::current();
  operation.count_release(guard.operation_, table_->lock_id(guard.entry_->hash));
  table_->release({guard.entry_, guard.operation_, guard.mode_});
}

void KeyLocks::release_logging(const Guard& guard, const char* signal) noexcept {
  const std::string key(guard.entry_->key());
  // User code, while the lock is held: waits of the log are checked, and it may lock the key again.
  log("Releasing lock for key: ", key, signal);
  const Operation& operation = detail::CurrentTaskScope::current();
  operation.count_release(guard.operation_, table_->lock_id(guard.entry_->hash));
  const auto options = options_;  // the next holder may destroy this object
  table_->release({guard.entry_, guard.operation_, guard.mode_});
  log(*options, "Lock released for key: ", key);
}

void KeyLocks::unlock(std::string_view key, LockMode mode) {
  const Operation& operation = detail::CurrentTaskScope::current();
  if (logs_) log("Releasing lock for key: ", key);
  const std::size_t hash = LockTable::hash(key);
  const std::uint64_t lock_id = table_->lock_id(hash);
  // The next holder may destroy this object, and that of the key.
  const auto options = logs_ ? options_ : nullptr;
  const std::string name(logs_ ? key : std::string_view());
  const std::optional<std::uint64_t> owner = table_->release_one(key, hash, operation.id(), mode);
  KEYWAY_CHECK(owner.has_value(), "a KeyLock is unlocked that is not held");
  operation.count_release(*owner, lock_id);
  if (options != nullptr) log(*options, "Lock released for key: ", name);
}

std::string_view KeyLocks::Guard::key() const {
  KEYWAY_CHECK(locks_ != nullptr, "an empty guard has no key");
  return entry_->key();
}

void KeyLocks::Guard::disown() {
  if (locks_ == nullptr || operation_ == 0) return;
  const Operation& operation = detail::CurrentTaskScope::current();
  operation.count_release(operation_, locks_->table_->lock_id(entry_->hash));
  locks_->table_->disown({entry_, operation_, mode_});
  operation_ = 0;
}

// ---- what people ask

std::size_t KeyLocks::active_lock_count() const { return table_->size(); }

std::vector<LockHolder> KeyLocks::holders(std::string_view key) const {
  return explain(key).holders;
}

namespace {

// A part that has ended has passed its locks on: its holds count for the operation that has them now.
std::vector<detail::LockHold> by_owner(std::vector<detail::LockHold> holds) {
  std::vector<detail::LockHold> merged;
  for (detail::LockHold& hold : holds) {
    if (hold.operation != 0) hold.operation = detail::owner_of(hold.operation);
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const auto& other) {
      return other.operation == hold.operation;
    });
    if (same == merged.end()) {
      merged.push_back(hold);
    } else {
      same->exclusive += hold.exclusive;
      same->shared += hold.shared;
    }
  }
  return merged;
}

}  // namespace

LockExplanation KeyLocks::explain(std::string_view key) const {
  LockExplanation explanation{.key = std::string(key)};
  std::vector<detail::LockHold> holds;
  table_->with_entry(key, LockTable::hash(key), [&](const LockEntry* entry) {
    if (entry == nullptr) return;
    holds = detail::holds_of(*entry);
    for (const Waiter& waiter : entry->waiters) {
      const auto& waiting = static_cast<const LockWaiter&>(waiter);
      if (explanation.waiting++ > 0) continue;
      explanation.first_waits = waiting.waiting_time();
    }
  });
  for (const detail::LockHold& hold : by_owner(std::move(holds))) {
    const std::string name = detail::operation_name(hold.operation);
    if (hold.exclusive > 0) {
      explanation.holders.push_back({name, LockMode::kExclusive, hold.exclusive});
    }
    if (hold.shared > 0) explanation.holders.push_back({name, LockMode::kShared, hold.shared});
  }
  return explanation;
}

void KeyLocks::log(const KeyLocksOptions& options, std::string_view before, std::string_view key,
                   const char* signal) {
  std::string line(before);
  line += key;
  if (signal != nullptr) line.append(" (signal: ").append(signal).append(")");
  try {
    options.debug_log(line);
  } catch (...) {  // a log only watches
  }
}

void KeyLocks::log_acquired(std::string_view key) const { log("Lock acquired for key: ", key); }

void KeyLocks::log_acquiring(std::string_view key, std::size_t hash) const {
  const bool exists =
      table_->with_entry(key, hash, [](const LockEntry* entry) { return entry != nullptr; });
  if (!exists) log("Creating new lock for key: ", key);
  log("Acquiring lock for key: ", key);
}

}  // namespace keyway
