// The operations of Result that take a callable, once for each kind of reference.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

namespace keyway {

struct Error;
template <class T>
class Result;

namespace detail {

template <class T>
inline constexpr bool kIsResult = false;
template <class T>
inline constexpr bool kIsResult<Result<T>> = true;

// Calls `f` with the value of a Result, or with nothing for Result<void>.
template <class R, class F>
decltype(auto) call_with_value(R&& result, F&& f) {
  if constexpr (std::is_void_v<typename std::remove_cvref_t<R>::value_type>) {
    return std::invoke(std::forward<F>(f));
  } else {
    return std::invoke(std::forward<F>(f), *std::forward<R>(result));
  }
}

template <class R, class F>
auto result_and_then(R&& result, F&& f) {
  using Next = std::remove_cvref_t<decltype(call_with_value(std::declval<R>(), std::declval<F>()))>;
  static_assert(kIsResult<Next>, "and_then() takes a callable that returns a Result");
  if (!result.ok()) return Next(std::forward<R>(result).error());
  return Next(call_with_value(std::forward<R>(result), std::forward<F>(f)));
}

template <class R, class F>
auto result_transform(R&& result, F&& f) {
  using Value =
      std::remove_cvref_t<decltype(call_with_value(std::declval<R>(), std::declval<F>()))>;
  if (!result.ok()) return Result<Value>(std::forward<R>(result).error());
  if constexpr (std::is_void_v<Value>) {
    call_with_value(std::forward<R>(result), std::forward<F>(f));
    return Result<Value>();
  } else {
    return Result<Value>(call_with_value(std::forward<R>(result), std::forward<F>(f)));
  }
}

template <class R, class F>
auto result_or_else(R&& result, F&& f) {
  using Same = std::remove_cvref_t<R>;
  using Returned =
      std::remove_cvref_t<decltype(std::invoke(std::declval<F>(), std::declval<R>().error()))>;
  static_assert(std::is_same_v<Returned, Same>,
                "or_else() takes a callable that returns a Result of the same type");
  if (result.ok()) return Same(std::forward<R>(result));
  return Same(std::invoke(std::forward<F>(f), std::forward<R>(result).error()));
}

template <class R, class F>
auto result_transform_error(R&& result, F&& f) {
  using Same = std::remove_cvref_t<R>;
  static_assert(
      std::is_convertible_v<decltype(std::invoke(std::declval<F>(), std::declval<R>().error())),
                            Error>,
      "transform_error() takes a callable that returns an Error");
  if (result.ok()) return Same(std::forward<R>(result));
  return Same(Error(std::invoke(std::forward<F>(f), std::forward<R>(result).error())));
}

// The base of Result<T>, as `Self`. Each member behaves as that of std::expected with its name.
template <class Self>
class ResultOperations {
 public:
  // f(value) if there is a value, which returns a Result; else a Result with this error.
  template <class F>
  auto and_then(F&& f) & {
    return result_and_then(self(), std::forward<F>(f));
  }
  template <class F>
  auto and_then(F&& f) const& {
    return result_and_then(self(), std::forward<F>(f));
  }
  template <class F>
  auto and_then(F&& f) && {
    return result_and_then(std::move(self()), std::forward<F>(f));
  }
  template <class F>
  auto and_then(F&& f) const&& {
    return result_and_then(std::move(self()), std::forward<F>(f));
  }

  // A Result with f(value) if there is a value; else one with this error.
  template <class F>
  auto transform(F&& f) & {
    return result_transform(self(), std::forward<F>(f));
  }
  template <class F>
  auto transform(F&& f) const& {
    return result_transform(self(), std::forward<F>(f));
  }
  template <class F>
  auto transform(F&& f) && {
    return result_transform(std::move(self()), std::forward<F>(f));
  }
  template <class F>
  auto transform(F&& f) const&& {
    return result_transform(std::move(self()), std::forward<F>(f));
  }

  // This value if there is one; else f(error), which returns a Result of the same type.
  template <class F>
  auto or_else(F&& f) & {
    return result_or_else(self(), std::forward<F>(f));
  }
  template <class F>
  auto or_else(F&& f) const& {
    return result_or_else(self(), std::forward<F>(f));
  }
  template <class F>
  auto or_else(F&& f) && {
    return result_or_else(std::move(self()), std::forward<F>(f));
  }
  template <class F>
  auto or_else(F&& f) const&& {
    return result_or_else(std::move(self()), std::forward<F>(f));
  }

  // This value if there is one; else a Result with the Error that f(error) returns.
  template <class F>
  auto transform_error(F&& f) & {
    return result_transform_error(self(), std::forward<F>(f));
  }
  template <class F>
  auto transform_error(F&& f) const& {
    return result_transform_error(self(), std::forward<F>(f));
  }
  template <class F>
  auto transform_error(F&& f) && {
    return result_transform_error(std::move(self()), std::forward<F>(f));
  }
  template <class F>
  auto transform_error(F&& f) const&& {
    return result_transform_error(std::move(self()), std::forward<F>(f));
  }

 private:
  friend Self;
  ResultOperations() = default;

  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace detail
}  // namespace keyway
