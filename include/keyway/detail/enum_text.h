// Prints an enumeration of Keyway's by its name: std::cout << result.status.
// It needs <ostream> only where it is used.
#pragma once

#include <concepts>
#include <iosfwd>
#include <type_traits>

namespace keyway {

template <class Enum>
  requires std::is_enum_v<Enum> && requires(Enum value) {
    { to_string(value) } -> std::same_as<const char*>;
  }
std::ostream& operator<<(std::ostream& out, Enum value) {
  return out << to_string(value);
}

}  // namespace keyway
