// How a task stores its value, and how the value's type is identified at run time.
#pragma once

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

// Its address identifies the type T.
template <class T>
inline constexpr char kValueType = 0;

// A value of an erased type.
struct AnyValue {
  const void* type = nullptr;  // the address of a kValueType; null: there is no value
  const void* kept = nullptr;
};

}  // namespace keyway::detail
