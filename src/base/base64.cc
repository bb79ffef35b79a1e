#include "base/base64.h"

#include <array>
#include <cstdint>

namespace keyway {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNone = 64;

constexpr std::array<std::uint8_t, 256> make_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNone);
  for (std::size_t at = 0; at < kAlphabet.size(); ++at) {
    values[static_cast<unsigned char>(kAlphabet[at])] = static_cast<std::uint8_t>(at);
  }
  return values;
}

constexpr std::array<std::uint8_t, 256> kValues = make_values();

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= group.size() ? kAlphabet[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::string_view group = text.substr(at, 4);
    if (at + 4 == text.size()) group = group.substr(0, std::min(group.find('='), group.size()));
    if (group.size() < 2 || text.substr(at + group.size(), 4 - group.size()) !=
                                std::string_view("==").substr(0, 4 - group.size())) {
      return std::nullopt;
    }
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint8_t value =
          i < group.size() ? kValues[static_cast<unsigned char>(group[i])] : std::uint8_t{0};
      if (value == kNone) return std::nullopt;
      bits = bits << 6 | value;
    }
    for (std::size_t i = 0; i + 1 < group.size(); ++i) {
      bytes += static_cast<char>(bits >> (16 - 8 * i) & 255);
    }
    // What is left of the last letter says nothing, and must not.
    if (group.size() < 4 && (bits & (group.size() == 2 ? 0xffffU : 0xffU)) != 0) {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace keyway
