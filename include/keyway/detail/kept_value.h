// How a task stores its value, and how the value's type is identified at run time.
#pragma once

#include <optional>
#include <ranges>
#include <type_traits>
#include <variant>

namespace keyway::detail {

// A reference is stored as a pointer, void as std::monostate.
template <class T>
struct Kept {
  using type = std::remove_cv_t<T>;
};
template <class T>
struct Kept<T&> {
  using type = T*;
};
template <>
struct Kept<void> {
  using type = std::monostate;
};

// Whether a value can be copied. A container has a copy constructor also if its elements have none, which
// std::is_copy_constructible does not see. A view, such as std::span, does not copy its elements.
template <class T, int Depth = 3>
inline constexpr bool kCanBeCopied = std::is_copy_constructible_v<T>;
template <std::ranges::range T, int Depth>
  requires(Depth > 0 && !std::ranges::view<T>)
inline constexpr bool kCanBeCopied<T, Depth> =
    std::is_copy_constructible_v<T> && kCanBeCopied<std::ranges::range_value_t<T>, Depth - 1>;
template <class T, int Depth>
inline constexpr bool kCanBeCopied<std::optional<T>, Depth> = kCanBeCopied<T, Depth>;

// Its address identifies the type T.
template <class T>
inline constexpr char kValueType = 0;

// A value of an erased type.
struct AnyValue {
  const void* type = nullptr;  // the address of a kValueType; null: there is no value
  const void* kept = nullptr;
};

}  // namespace keyway::detail
