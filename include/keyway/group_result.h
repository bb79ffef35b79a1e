// How a task ended.
#pragma once

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

template <class T>
struct ResultValue {
  std::optional<T> stored;
  void keep(T&& value) { stored.emplace(std::move(value)); }
  T& get() { return *stored; }
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

}  // namespace detail

// The outcome of one task. A plain value: copy it, move it, keep it.
//
// status   value   error
// kSuccess   yes   null
// kFailed     no   what the task threw
// kCancelled  no   CancelledError, or TimeoutError if only the wait ended
// kExpired    no   ExpiredError
// kRejected   no   null
template <class T>
struct GroupResult {
  std::string group_key;
  std::string task_id;
  TaskStatus status = TaskStatus::kRejected;
  std::exception_ptr error;
  // When it got its permits, so that waiting is not counted, and when it ended; to a microsecond.
  TimePoint started{};
  TimePoint ended{};
  detail::ResultValue<T> stored;

  bool ok() const noexcept { return status == TaskStatus::kSuccess; }
  Duration duration() const { return ended - started; }

  // What the task returned. Throws `error` if it did not return, RejectedError if it never ran.
  decltype(auto) value() {
    if (error) std::rethrow_exception(error);
    if (!stored.has())
      throw RejectedError("task \"" + task_id + "\" was rejected: it has no value");
    return stored.get();
  }
};

}  // namespace keyway
