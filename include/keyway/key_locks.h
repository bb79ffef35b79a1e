// One lock per key, made by its first user and freed with its last holder or waiter.
// Use it when the caller must wait for its turn; when the work itself can be handed over, use SerialDispatcher.
//
//   KeyLocks locks;
//   KeyLocks::Guard guard = locks.lock("project-42");                   // released at scope exit
//   KeyLocks::Guard guard = co_await locks.lock_async("project-42");
//   locks.with_lock("project-42", [&] { create_version(); });
//
// A lock belongs to the operation that took it: a task, a coroutine, or a thread outside of both. Not to a thread:
// a coroutine that goes on elsewhere still has its locks.
//
// Guarantees:
//   (1) At most one operation holds a key, or several that all share it.
//   (2) A key's waiters get it in the order they asked.
//   (3) Re-entrant: an operation that holds a key may lock it again, at once, and so may its parts; two
//       branches of when_all() exclude each other. A part that ends and has not released its locks passes them on
//       to the operation: Guard guard = co_await with_timeout(1s, take("k")) belongs to whoever awaits it.
//   (4) A key without holder and waiter occupies no memory.
//   (5) A wait that could never end is refused with ErrorCode::kWaitCycle, and the error names the cycle: also one
//       through tasks that wait for each other.
// Not guaranteed: any order between different keys; (5) for threads that wait for each other by other means.
// What the order (2) costs: where two threads want one key all the time, a hand-over for each lock, about three times a
// bare mutex; with more threads than cores on it, a switch to the thread whose turn it is, some microseconds.
//
// Thread safety: every method from any thread; a guard may be released on another thread than it was taken.
// Lifetime: outlives its guards and whoever waits; the destructor checks it.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <concepts>
#include <coroutine>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "keyway/detail/wait_of.h"
#include "keyway/error.h"
#include "keyway/lock_explanation.h"
#include "keyway/lock_mode.h"
#include "keyway/scheduler.h"
#include "keyway/task.h"

namespace keyway {

class KeyLock;
class LockSet;

namespace detail {
class AsyncLock;
class LockTable;
struct LockEntry;
class Operation;

// Whether a string_view of each key stays valid while the whole range is read: the key is an object of the range, or a
// view itself. A range that can be read only once may overwrite its key, as std::views::istream does.
template <class Keys, class Key = std::ranges::range_reference_t<Keys>>
inline constexpr bool kKeysOutliveTheirTurn =
    std::ranges::forward_range<Keys> &&
    (std::is_lvalue_reference_v<Key> ||
     std::is_same_v<std::remove_cvref_t<Key>, std::string_view> ||
     std::is_pointer_v<std::remove_cvref_t<Key>>);

// Named for compiler messages.
template <class F>
concept CanBeCalledWithoutArguments = std::is_invocable_v<std::decay_t<F>&>;
// void for a type that is not a callable, so that the compiler's message names the concept.
template <class F>
struct ResultWithLock {
  using type = void;
};
template <CanBeCalledWithoutArguments F>
struct ResultWithLock<F> {
  using type = std::invoke_result_t<std::decay_t<F>&>;
};
}  // namespace detail

struct KeyLocksOptions {
  // Told what happens to each lock, one line each, on the thread where it happens:
  //   Creating new lock for key: project-1
  //   Acquiring lock for key: project-1
  //   Lock acquired for key: project-1
  //   Releasing lock for key: project-1 (signal: onComplete)
  //   Lock released for key: project-1
  // The signal is known of with_lock() alone: onComplete, onError or cancel. The last line of a release comes when the lock
  // is free already, perhaps after the KeyLocks is destroyed by its next holder.
  std::function<void(std::string_view line)> debug_log;
};

class KeyLocks {
 public:
  class Guard;
  class LockAwaiter;

  explicit KeyLocks(KeyLocksOptions options = {});
  ~KeyLocks();
  KeyLocks(const KeyLocks&) = delete;
  KeyLocks& operator=(const KeyLocks&) = delete;

  // Waits for its turn. Throws Exception (kWaitCycle) if that would never come, (kInvalidArgument) for an empty key.
  // In a coroutine use lock_async(): this one blocks its thread.
  [[nodiscard]] Guard lock(std::string_view key, LockMode mode = LockMode::kExclusive);
  // The same, but throws CancelledError if `stop` is requested first, even before the call and with
  // a free lock.
  [[nodiscard]] Guard lock(std::string_view key, std::stop_token stop,
                           LockMode mode = LockMode::kExclusive);
  // Without waiting, and waiting for a limited time; false if the lock was not to be had:
  //   if (KeyLocks::Guard guard = locks.try_lock("project-42")) { ... }
  [[nodiscard]] Guard try_lock(std::string_view key, LockMode mode = LockMode::kExclusive);
  [[nodiscard]] Guard try_lock_for(std::string_view key, Duration timeout,
                                   LockMode mode = LockMode::kExclusive);

  // Guard guard = co_await locks.lock_async(key); no thread waits. Throws as lock(), and CancelledError if the task
  // is asked to stop meanwhile. With a timeout (see keyway/when_any.h):
  //   auto lock = locks.lock_async(key);
  //   Guard guard = co_await with_timeout(1s, lock);
  // What it returns is awaited once, also after a timeout; a second time ends the program.
  // A coroutine of another library that had to wait goes on on a thread of a pool of Keyway's own, or as an item of the
  // simulation or event loop in which the lock was released: never inside the release. Nobody knows it as an operation. So
  // a guard that it gets here does not let it enter again, and what it takes by lock() belongs to what it does until its
  // next suspension. It may be destroyed while it stands in line, but not once the lock is its own and it is about to go on:
  // that ends the program.
  [[nodiscard]] LockAwaiter lock_async(std::string_view key, LockMode mode = LockMode::kExclusive);

  // All of these keys, in an order of its own: whoever locks no other way cannot get into a cycle
  // by it. Any range of strings, also a view that generates them.
  template <std::ranges::input_range Keys>
    requires std::convertible_to<std::ranges::range_reference_t<Keys>, std::string_view>
  [[nodiscard]] LockSet lock_all(Keys&& keys, LockMode mode = LockMode::kExclusive);
  [[nodiscard]] LockSet lock_all(std::initializer_list<std::string_view> keys,
                                 LockMode mode = LockMode::kExclusive);
  // With g++ 12 give it a vector that has a name: it does not compile the braces of
  // `co_await locks.lock_all_async({"a", "b"})` ("array used as initializer").
  //   std::vector<std::string> keys{"a", "b"};
  //   LockSet both = co_await locks.lock_all_async(keys);
  Task<LockSet> lock_all_async(std::vector<std::string> keys, LockMode mode = LockMode::kExclusive);

  // Calls `callable` with the lock held, and gives what it returns. If it is a coroutine (it returns a Task<T>), so is
  // this: the lock is held until it has ended, wherever that is.
  // With g++ 12, such a coroutine that captures more than plain values and references must have a name, because a
  // temporary in a co_await expression would be destroyed twice. One that cannot be copied is passed by reference:
  //   int version = co_await locks.with_lock("blog", std::ref(upload));   // `upload` is a move-only lambda
  template <detail::CanBeCalledWithoutArguments F>
  auto with_lock(std::string_view key, F&& callable, LockMode mode = LockMode::kExclusive) ->
      typename detail::ResultWithLock<F>::type;

  // How many keys somebody holds or waits for.
  std::size_t active_lock_count() const;
  // Who holds the key now, and who waits since when.
  std::vector<LockHolder> holders(std::string_view key) const;
  LockExplanation explain(std::string_view key) const;

 private:
  friend class KeyLock;
  friend class detail::AsyncLock;

  Guard lock_waiting(std::string_view key, std::size_t hash, const detail::Operation& operation,
                     LockMode mode, const Duration* timeout, std::stop_token stop);
  LockSet lock_sorted(std::vector<std::string_view> keys, LockMode mode);
  class SignalledEnd;
  template <class F>
  static std::invoke_result_t<F&> call_with(Guard guard, F& callable);
  template <class F>
  auto with_lock_async(std::string key, F callable, LockMode mode) -> std::invoke_result_t<F&>;
  void release(const Guard& guard, const char* signal) noexcept;
  void release_logging(const Guard& guard, const char* signal) noexcept;
  void unlock(std::string_view key, LockMode mode);
  static void log(const KeyLocksOptions& options, std::string_view before, std::string_view key,
                  const char* signal = nullptr);
  void log(std::string_view before, std::string_view key, const char* signal = nullptr) const {
    log(*options_, before, key, signal);
  }
  void log_acquired(std::string_view key) const;
  void log_acquiring(std::string_view key, std::size_t hash) const;

  const std::shared_ptr<const KeyLocksOptions> options_;  // shared with releases that log
  const bool logs_;
  const std::unique_ptr<detail::LockTable> table_;
};

// A lock that is held; or none, if it is empty.
//
// Thread safety: one thread at a time.
class [[nodiscard]] KeyLocks::Guard {
 public:
  Guard() = default;
  Guard(Guard&& other) noexcept
      : locks_(std::exchange(other.locks_, nullptr)),
        entry_(other.entry_),
        operation_(other.operation_),
        mode_(other.mode_) {}
  Guard& operator=(Guard&& other) noexcept {
    if (this == &other) return *this;
    release();
    locks_ = std::exchange(other.locks_, nullptr);
    entry_ = other.entry_;
    operation_ = other.operation_;
    mode_ = other.mode_;
    return *this;
  }
  ~Guard() { release(); }

  explicit operator bool() const { return locks_ != nullptr; }
  // REQUIRES: not empty.
  std::string_view key() const;
  LockMode mode() const { return mode_; }

  void release() noexcept { give_back(nullptr); }
  // For a guard that is passed on to somebody else: it belongs to no operation any more, so that the one that took
  // it cannot enter again by it, and no wait cycle is seen through it.
  void disown();

 private:
  friend class KeyLocks;
  friend class KeyLock;
  friend class detail::AsyncLock;

  Guard(KeyLocks& locks, detail::LockEntry& entry, std::uint64_t operation, LockMode mode)
      : locks_(&locks), entry_(&entry), operation_(operation), mode_(mode) {}
  void give_back(const char* signal) noexcept {
    if (locks_ != nullptr) std::exchange(locks_, nullptr)->release(*this, signal);
  }

  KeyLocks* locks_ = nullptr;  // null: empty
  detail::LockEntry* entry_ = nullptr;
  std::uint64_t operation_ = 0;
  LockMode mode_ = LockMode::kExclusive;
};

// What lock_all() holds. Released together.
class [[nodiscard]] LockSet {
 public:
  LockSet() = default;
  LockSet(LockSet&&) noexcept = default;
  LockSet& operator=(LockSet&& other) noexcept {
    if (this != &other) {
      release();
      guards_ = std::move(other.guards_);
    }
    return *this;
  }
  ~LockSet() { release(); }

  std::size_t size() const { return guards_.size(); }
  // The last one first.
  void release() noexcept {
    while (!guards_.empty()) guards_.pop_back();
  }

 private:
  friend class KeyLocks;
  std::vector<KeyLocks::Guard> guards_;
};

class [[nodiscard]] KeyLocks::LockAwaiter {
 public:
  ~LockAwaiter();
  LockAwaiter(const LockAwaiter&) = delete;
  LockAwaiter& operator=(const LockAwaiter&) = delete;

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    if constexpr (std::is_base_of_v<detail::TaskPromiseBase, Promise>) {
      return suspend(coroutine, &coroutine.promise().context());
    } else {
      return suspend(coroutine, nullptr);
    }
  }
  Guard await_resume();

 private:
  friend class KeyLocks;
  friend struct detail::WaitOf<LockAwaiter>;
  LockAwaiter(KeyLocks& locks, std::string_view key, LockMode mode);
  // False if there is nothing to wait for.
  bool suspend(std::coroutine_handle<> coroutine, const detail::TaskContext* context);
  [[noreturn]] void throw_timed_out(Duration timeout) const;

  KeyLocks& locks_;
  const std::string key_;
  const LockMode mode_;
  bool is_awaited_ = false;
  Guard guard_;
  std::unique_ptr<detail::AsyncLock> waiting_;  // null: there was nothing to wait for
};

template <>
struct detail::WaitOf<KeyLocks::LockAwaiter> {
  using Value = KeyLocks::Guard;
  explicit WaitOf(KeyLocks::LockAwaiter& its_lock) : lock(&its_lock) {}
  Task<Value> begin() { return take(lock); }
  static Value end(Value guard) { return guard; }
  // Throws TimeoutError. A lock that came too late is released.
  [[noreturn]] void timed_out(Duration timeout) const { lock->throw_timed_out(timeout); }

  static Task<Value> take(KeyLocks::LockAwaiter* lock) { co_return co_await *lock; }
  KeyLocks::LockAwaiter* lock;
};

template <std::ranges::input_range Keys>
  requires std::convertible_to<std::ranges::range_reference_t<Keys>, std::string_view>
LockSet KeyLocks::lock_all(Keys&& keys, LockMode mode) {
  if constexpr (detail::kKeysOutliveTheirTurn<Keys>) {
    std::vector<std::string_view> views;
    for (auto&& key : keys) views.push_back(std::forward<decltype(key)>(key));
    return lock_sorted(std::move(views), mode);
  } else {
    std::vector<std::string> copies;
    for (auto&& key : keys) {
      const std::string_view view = std::forward<decltype(key)>(key);
      copies.emplace_back(view);
    }
    return lock_sorted({copies.begin(), copies.end()}, mode);
  }
}

// Gives the lock back at the end of its scope, and says to the log how that came.
class KeyLocks::SignalledEnd {
 public:
  explicit SignalledEnd(Guard guard) : guard_(std::move(guard)) {}
  ~SignalledEnd() { guard_.give_back(signal); }
  SignalledEnd(const SignalledEnd&) = delete;
  SignalledEnd& operator=(const SignalledEnd&) = delete;

  const char* signal = "onError";

 private:
  Guard guard_;
};

template <class F>
std::invoke_result_t<F&> KeyLocks::call_with(Guard guard, F& callable) {
  using Value = std::invoke_result_t<F&>;
  SignalledEnd end(std::move(guard));
  try {
    if constexpr (std::is_void_v<Value>) {
      std::invoke(callable);
      end.signal = "onComplete";
    } else {
      Value&& result = std::invoke(callable);
      end.signal = "onComplete";
      return static_cast<Value&&>(result);
    }
  } catch (const CancelledError&) {
    end.signal = "cancel";
    throw;
  }
}

template <class F>
auto KeyLocks::with_lock_async(std::string key, F callable, LockMode mode)
    -> std::invoke_result_t<F&> {
  using Value = typename std::invoke_result_t<F&>::value_type;
  SignalledEnd end(co_await lock_async(key, mode));
  try {
    if constexpr (std::is_void_v<Value>) {
      co_await std::invoke(callable);
      end.signal = "onComplete";
      co_return;
    } else {
      Value&& result = co_await std::invoke(callable);
      end.signal = "onComplete";
      co_return static_cast<Value&&>(result);
    }
  } catch (const CancelledError&) {
    end.signal = "cancel";
    throw;
  }
}

template <detail::CanBeCalledWithoutArguments F>
auto KeyLocks::with_lock(std::string_view key, F&& callable, LockMode mode) ->
    typename detail::ResultWithLock<F>::type {
  if constexpr (detail::Unwrapped<std::invoke_result_t<std::decay_t<F>&>>::kIsCoroutine) {
    static_assert(detail::kIsSafeInAwait<F>,
                  "g++ 12 would destroy this callable twice: pass the name of a variable, or "
                  "std::ref(name) if it cannot be copied");
    return with_lock_async<std::decay_t<F>>(std::string(key), std::forward<F>(callable), mode);
  } else {
    return call_with(lock(key, mode), callable);
  }
}

}  // namespace keyway
