// Copying and comparing texts of a few bytes without a call: that is what keys and ids are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace keyway::detail {

inline std::uint64_t load_8(const char* text) {
  std::uint64_t word;
  std::memcpy(&word, text, sizeof word);
  return word;
}
inline std::uint32_t load_4(const char* text) {
  std::uint32_t word;
  std::memcpy(&word, text, sizeof word);
  return word;
}

// All bytes of a text of at most 8, in some order. Pieces overlap where the size is odd.
inline std::uint64_t load_up_to_8(const char* text, std::size_t size) {
  if (size >= 4) {
    return (std::uint64_t{load_4(text)} << 32) | load_4(text + size - 4);
  }
  if (size == 0) return 0;
  const auto byte = [text](std::size_t i) {
    return std::uint64_t{static_cast<unsigned char>(text[i])};
  };
  return (byte(0) << 16) | (byte(size / 2) << 8) | byte(size - 1);
}

inline bool same_text(std::string_view a, std::string_view b) {
  const std::size_t size = a.size();
  if (size != b.size()) return false;
  if (size > 16) return std::memcmp(a.data(), b.data(), size) == 0;
  if (size < 8) return load_up_to_8(a.data(), size) == load_up_to_8(b.data(), size);
  return load_8(a.data()) == load_8(b.data()) &&
         load_8(a.data() + size - 8) == load_8(b.data() + size - 8);
}

inline void copy_text(char* to, std::string_view from) {
  const std::size_t size = from.size();
  const char* text = from.data();
  if (size > 16) {
    std::memcpy(to, text, size);
  } else if (size >= 8) {
    const std::uint64_t first = load_8(text);
    const std::uint64_t last = load_8(text + size - 8);
    std::memcpy(to, &first, 8);
    std::memcpy(to + size - 8, &last, 8);
  } else if (size >= 4) {
    const std::uint32_t first = load_4(text);
    const std::uint32_t last = load_4(text + size - 4);
    std::memcpy(to, &first, 4);
    std::memcpy(to + size - 4, &last, 4);
  } else {
    for (std::size_t i = 0; i < size; ++i) to[i] = text[i];
  }
}

}  // namespace keyway::detail
