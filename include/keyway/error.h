// What can go wrong, in three forms.
//
//   - An operating failure is a Result<T> that holds an Error: code, message, retryable or not.
//   - A call that cannot be meant (an empty key, a limit of 0, submit after shutdown) throws an
//     Exception that holds the same Error.
//   - A broken precondition inside Keyway, or of an object's lifetime, ends the program (KEYWAY_CHECK).
//
// What a user's callable throws is none of these: it reaches the task's handle as it is.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "keyway/detail/check.h"
#include "keyway/detail/enum_text.h"
#include "keyway/detail/result_operations.h"
#include "keyway/rejection_reason.h"

namespace keyway {

enum class ErrorCode {
  kInvalidArgument,  // the call can never succeed as it is
  kShutdown,         // the executor takes no more work
  kRejected,         // the executor rejected the task: see Error::rejection
  kCancelled,        // somebody asked the task to stop
  kTimeout,          // the wait ended before the task did
  kExpired,          // the task's time to begin was over
  kWaitCycle,        // the wait could never end: the tasks wait for each other
  kNoThread,         // the wait would leave no thread for its target
  kResultTaken,      // a handle gives its result out once
  kIo,               // a file, a pipe or a process failed; later it may succeed
  kConflict,         // what is stored does not match, or is held by somebody else
};

const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code{};
  std::string message{};
  bool retryable = false;
  // The task that was rejected; set for kRejected, and for kShutdown, kTimeout and kCancelled of a submit.
  std::string group_key{};
  std::string task_id{};
  std::optional<RejectionReason> rejection{};  // why it was

  bool operator==(const Error&) const = default;
};

class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}

  const Error& error() const noexcept { return error_; }
  ErrorCode code() const noexcept { return error_.code; }

 private:
  Error error_;
};

// Whether the same submit may succeed later, because a full queue may have room then. False for a
// shutdown and for a conflation.
constexpr bool is_retryable(RejectionReason reason) noexcept {
  return reason == RejectionReason::kQueueFull || reason == RejectionReason::kGlobalQueueFull ||
         reason == RejectionReason::kNoRoomInTime;
}

// Thrown by await(), join() and co_await for a task that a queue threshold turned away under RejectionPolicy::kAbort. A
// task that was rejected for another reason (shutdown(), shutdown_group(), conflation) gives a result with kRejected.
// GroupResult::value() throws this error for every rejected task.
class RejectedError : public Exception {
 public:
  explicit RejectedError(std::string message, std::string group_key = {}, std::string task_id = {},
                         RejectionReason reason = RejectionReason::kQueueFull)
      : Exception({ErrorCode::kRejected, std::move(message), is_retryable(reason),
                   std::move(group_key), std::move(task_id), reason}) {}

  const std::string& group_key() const noexcept { return error().group_key; }
  const std::string& task_id() const noexcept { return error().task_id; }
  RejectionReason reason() const noexcept { return *error().rejection; }
};

// A task that throws this ends kCancelled instead of kFailed.
class CancelledError : public Exception {
 public:
  explicit CancelledError(std::string message = "the task was cancelled")
      : Exception({ErrorCode::kCancelled, std::move(message), /*retryable=*/false}) {}
};

// The error of a result whose wait timed out: the task itself goes on. Also thrown by with_timeout(), once its task
// has ended.
class TimeoutError : public Exception {
 public:
  explicit TimeoutError(std::string message)
      : Exception({ErrorCode::kTimeout, std::move(message), /*retryable=*/true}) {}
};

// The error of a task whose time to begin was over before it could.
class ExpiredError : public Exception {
 public:
  explicit ExpiredError(std::string message)
      : Exception({ErrorCode::kExpired, std::move(message), /*retryable=*/true}) {}
};

namespace detail {
// Prints the error, then ends the program.
[[noreturn]] void value_of_failure(const Error& error);
}  // namespace detail

// A value, or the Error that explains why there is none. It has the members of std::expected<T,
// Error>: has_value(), value(), operator*, error(), value_or(), and_then(), transform(), or_else(),
// transform_error(), ==. The differences:
//   - An Error converts to a Result by itself, without std::unexpected.
//   - value() and operator* of a failure, and error() of a success, print a message and end the program.
//   - A Result is made from an Error, from a value that converts to T, or from a Result of such a value. Only
//     Result<void> has a default constructor; there is no std::in_place, emplace(), swap() or error_or().
//
//   Result<Page> page = fetch(url).and_then(parse).or_else(from_cache);
//   std::string title = page.transform(&Page::title).value_or("untitled");
template <class T>
class [[nodiscard]] Result : public detail::ResultOperations<Result<T>> {
  static_assert(!std::is_reference_v<T>, "a Result holds no reference: use a pointer or a value");
  static_assert(!std::is_same_v<std::remove_cv_t<T>, Error>, "an Error is not a value of a Result");

 public:
  using value_type = T;
  using error_type = Error;

  template <class U = T>
    requires(!std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error> && std::is_convertible_v<U, T>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  template <class U>
    requires(!std::is_same_v<U, T> && std::is_convertible_v<U, T> &&
             !std::is_convertible_v<Result<U>, T>)
  Result(Result<U> other)
      : Result(std::move(other).transform([](U&& value) -> T { return std::forward<U>(value); })) {}

  bool ok() const noexcept { return state_.index() == 0; }
  bool has_value() const noexcept { return ok(); }
  explicit operator bool() const noexcept { return ok(); }

  // REQUIRES: ok()
  T& value() & { return require_value(), std::get<0>(state_); }
  const T& value() const& { return require_value(), std::get<0>(state_); }
  T&& value() && { return require_value(), std::get<0>(std::move(state_)); }
  const T&& value() const&& { return require_value(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T&& operator*() const&& { return std::move(*this).value(); }
  T* operator->() { return std::addressof(value()); }
  const T* operator->() const { return std::addressof(value()); }

  template <class U = T>
  T value_or(U&& fallback) const& {
    return ok() ? std::get<0>(state_) : static_cast<T>(std::forward<U>(fallback));
  }
  template <class U = T>
  T value_or(U&& fallback) && {
    return ok() ? std::get<0>(std::move(state_)) : static_cast<T>(std::forward<U>(fallback));
  }

  // REQUIRES: !ok()
  Error& error() & { return require_error(), std::get<1>(state_); }
  const Error& error() const& { return require_error(), std::get<1>(state_); }
  Error&& error() && { return require_error(), std::get<1>(std::move(state_)); }
  const Error&& error() const&& { return require_error(), std::get<1>(std::move(state_)); }

  friend bool operator==(const Result& a, const Result& b)
    requires requires(const T& value) { value == value; }
  {
    if (a.ok() != b.ok()) return false;
    return a.ok() ? static_cast<bool>(*a == *b) : a.error() == b.error();
  }
  friend bool operator==(const Result& a, const Error& error) {
    return !a.ok() && a.error() == error;
  }

 private:
  void require_value() const {
    if (!ok()) [[unlikely]]
      detail::value_of_failure(std::get<1>(state_));
  }
  void require_error() const { KEYWAY_CHECK(!ok(), "Result::error() of a success"); }

  std::variant<T, Error> state_;
};

// Not a friend of Result: a friend is considered for every type that only names a Result, such as an iterator of a
// container of them, and the compiler would then look for an == between that type and T.
template <class T, class U>
  requires(!detail::kIsResult<U> && !std::is_same_v<U, Error> &&
           requires(const T& value, const U& other) { value == other; })
bool operator==(const Result<T>& a, const U& value) {
  return a.ok() && static_cast<bool>(*a == value);
}

template <>
class [[nodiscard]] Result<void> : public detail::ResultOperations<Result<void>> {
 public:
  using value_type = void;
  using error_type = Error;

  Result() = default;
  Result(Error error) : error_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const noexcept { return error_.index() == 0; }
  bool has_value() const noexcept { return ok(); }
  explicit operator bool() const noexcept { return ok(); }

  // REQUIRES: ok()
  void value() const {
    if (!ok()) [[unlikely]]
      detail::value_of_failure(std::get<1>(error_));
  }
  void operator*() const { value(); }

  // REQUIRES: !ok()
  Error& error() & { return require_error(), std::get<1>(error_); }
  const Error& error() const& { return require_error(), std::get<1>(error_); }
  Error&& error() && { return require_error(), std::get<1>(std::move(error_)); }
  const Error&& error() const&& {
    return require_error(), static_cast<const Error&&>(std::get<1>(error_));
  }

  friend bool operator==(const Result& a, const Result& b) { return a.error_ == b.error_; }
  friend bool operator==(const Result& a, const Error& error) {
    return !a.ok() && a.error() == error;
  }

 private:
  void require_error() const { KEYWAY_CHECK(!ok(), "Result::error() of a success"); }

  std::variant<std::monostate, Error> error_;
};

}  // namespace keyway
