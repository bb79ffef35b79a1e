// What can go wrong, in three forms.
//
//   - An operating failure is a Result<T> that holds an Error: code, message, retryable or not.
//   - A call that cannot be meant (an empty key, a limit of 0, submit after shutdown) throws an
//     Exception that holds the same Error.
//   - A broken precondition inside Keyway, or of an object's lifetime, ends the program (KEYWAY_CHECK).
//
// What a user's callable throws is none of these: it reaches the task's handle as it is.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "keyway/detail/check.h"

namespace keyway {

enum class ErrorCode {
  kInvalidArgument,  // the call can never succeed as it is
  kShutdown,         // the executor takes no more work
  kRejected,         // a queue threshold was reached; later it may succeed
  kCancelled,        // somebody asked the task to stop
  kTimeout,          // the wait ended before the task did
  kExpired,          // the task's time to begin was over
  kWaitCycle,        // the wait could never end: the tasks wait for each other
  kNoThread,         // the wait would leave no thread for what it waits for
  kResultTaken,      // a handle gives its result out once
  kIo,               // a file, a pipe or a process failed; later it may succeed
  kConflict,         // what is stored does not match, or is held by somebody else
};

const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;
  bool retryable = false;
};

class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}

  const Error& error() const noexcept { return error_; }
  ErrorCode code() const noexcept { return error_.code; }

 private:
  Error error_;
};

// Thrown by await() and join() for a task that RejectionPolicy::kAbort turned away.
class RejectedError : public Exception {
 public:
  explicit RejectedError(std::string message)
      : Exception({ErrorCode::kRejected, std::move(message), /*retryable=*/true}) {}
};

// A task that throws this ends kCancelled instead of kFailed.
class CancelledError : public Exception {
 public:
  explicit CancelledError(std::string message = "the task was cancelled")
      : Exception({ErrorCode::kCancelled, std::move(message), /*retryable=*/false}) {}
};

// The error of a result whose wait timed out. The task itself goes on.
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

// A value, or the Error that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  // REQUIRES: ok()
  T& value() & { return require_value(), std::get<0>(state_); }
  const T& value() const& { return require_value(), std::get<0>(state_); }
  T&& value() && { return require_value(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok()
  const Error& error() const {
    KEYWAY_CHECK(!ok(), "Result::error() of a success");
    return std::get<1>(state_);
  }

 private:
  void require_value() const { KEYWAY_CHECK(ok(), "Result::value() of a failure"); }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const noexcept { return error_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  // REQUIRES: !ok()
  const Error& error() const {
    KEYWAY_CHECK(!ok(), "Result::error() of a success");
    return std::get<1>(error_);
  }

 private:
  std::variant<std::monostate, Error> error_;
};

}  // namespace keyway
