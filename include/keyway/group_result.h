// How a task ended.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "keyway/error.h"
#include "keyway/scheduler.h"
#include "keyway/task_status.h"

namespace keyway {

namespace detail {

// The value of a GroupResult. get() returns a reference of the same kind as the object it is called
// on.
template <class T>
struct ResultValue {
  std::optional<T> stored{};
  void keep(T&& value) { stored.emplace(std::move(value)); }
  T& get() & { return *stored; }
  const T& get() const& { return *stored; }
  T&& get() && { return *std::move(stored); }
  const T&& get() const&& { return *std::move(stored); }
  bool has() const { return stored.has_value(); }
};
template <class T>
struct ResultValue<T&> {
  T* stored = nullptr;
  void keep(T* value) { stored = value; }
  T& get() const { return *stored; }
  bool has() const { return stored != nullptr; }
};
template <>
struct ResultValue<void> {
  bool stored = false;
  void get() const {}
  bool has() const { return stored; }
};

[[noreturn]] void throw_no_value(const std::string& group_key, const std::string& task_id,
                                 RejectionReason reason);

}  // namespace detail

// The outcome of one task. A plain value: copy it, move it, keep it.
//
// status     value  error
// kSuccess     yes  null
// kFailed       no  what the task threw
// kCancelled    no  CancelledError
// kExpired      no  ExpiredError
// kRejected     no  null; or an Exception (kShutdown), for a task that execute_all() could not submit
// kTimedOut     no  TimeoutError: the wait ended, the task goes on
template <class T>
struct [[nodiscard(
    "look at its status, or call value(), which throws what the task threw")]] GroupResult {
  std::string group_key{};
  std::string task_id{};
  TaskStatus status = TaskStatus::kRejected;
  std::exception_ptr error{};
  // When it got its permits, so that waiting is not counted, and when it ended; to a microsecond.
  TimePoint started{};
  TimePoint ended{};
  std::optional<RejectionReason> rejection{};  // kRejected: why
  detail::ResultValue<T> stored{};

  bool ok() const noexcept { return status == TaskStatus::kSuccess; }
  Duration duration() const { return ended - started; }

  // The task's value, as a reference of the same kind as this object; for a task that returned a
  // reference, that reference. Throws `error` if the task failed, and RejectedError if it was
  // rejected.
  decltype(auto) value() & { return require_value(), stored.get(); }
  decltype(auto) value() const& { return require_value(), stored.get(); }
  decltype(auto) value() && { return require_value(), std::move(stored).get(); }
  decltype(auto) value() const&& { return require_value(), std::move(stored).get(); }

  // The task's value, or `fallback` if there is none. Never throws `error`.
  template <class U = std::remove_cv_t<T>>
    requires(!std::is_void_v<T>)
  T value_or(U&& fallback) const& {
    return stored.has() ? stored.get() : static_cast<T>(std::forward<U>(fallback));
  }
  template <class U = std::remove_cv_t<T>>
    requires(!std::is_void_v<T>)
  T value_or(U&& fallback) && {
    return stored.has() ? std::move(stored).get() : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  void require_value() const {
    if (error) std::rethrow_exception(error);
    if (stored.has()) return;
    detail::throw_no_value(group_key, task_id, rejection.value_or(RejectionReason::kQueueFull));
  }
};

}  // namespace keyway
