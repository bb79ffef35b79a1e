// How the value of a task is kept, and how its type is known where it is not named.
#pragma once

#include <type_traits>
#include <variant>

namespace keyway::detail {

// A reference is kept as a pointer, nothing as nothing.
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

// Its address stands for the type.
template <class T>
inline constexpr char kValueType = 0;

// A value of a type that only its user knows.
struct AnyValue {
  const void* type = nullptr;  // the address of a kValueType; null: there is no value
  const void* kept = nullptr;
};

}  // namespace keyway::detail
