// A fast hash for keys of a few dozen bytes, in which every bit depends on all of the key.
//
// It is seeded once per process, so that nobody outside can choose keys that collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "keyway/detail/short_text.h"

namespace keyway {

namespace detail {

// The same for all callers.
std::uint64_t hash_seed();

// The two halves of the 128-bit product, folded: cheap, and no bit is lost to the carry.
inline std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace detail

inline std::size_t hash_key(std::string_view key) {
  static const std::uint64_t seed = detail::hash_seed();
  // Odd numbers without structure: digits of the golden ratio and of the square root of two.
  constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15;
  constexpr std::uint64_t kSecond = 0x6a09e667f3bcc909;
  const char* text = key.data();
  std::size_t left = key.size();
  std::uint64_t hash = seed ^ (left * kFirst);
  for (; left > 8; left -= 8, text += 8) {
    hash = detail::fold_multiply(hash ^ detail::load_8(text), kSecond);
  }
  return detail::fold_multiply(hash ^ detail::load_up_to_8(text, left), kFirst) ^ hash;
}

// How long keys and names of any kind may be.
inline constexpr std::size_t kMaxKeyBytes = 65'535;

// Throws Exception (kInvalidArgument). `what`: "group key", for example.
[[noreturn]] void refuse_key(std::string_view key, std::string_view what);

// Throws as above for a key that is empty, or too long.
inline void require_key(std::string_view key, std::string_view what) {
  if (key.empty() || key.size() > kMaxKeyBytes) [[unlikely]]
    refuse_key(key, what);
}

}  // namespace keyway
