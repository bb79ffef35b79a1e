#include "base/quoted.h"

#include <cstdint>

#include "base/human_text.h"

namespace keyway {

namespace {

constexpr std::size_t kLongestBytes = 100;

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<std::uint8_t>(text[at]) : 0;
}

// The size of the printable UTF-8 character that `text` begins with; 0: it begins with none. No character above U+007F
// is a control character but those below U+00A0.
std::size_t printable_bytes(std::string_view text) {
  const std::uint8_t first = byte_at(text, 0);
  const std::uint8_t second = byte_at(text, 1);
  const auto continues = [&](std::size_t at) { return (byte_at(text, at) & 0xc0) == 0x80; };
  if (first >= 0x20 && first < 0x7f) return 1;
  if (first >= 0xc2 && first < 0xe0) {
    return continues(1) && (first > 0xc2 || second >= 0xa0) ? 2 : 0;
  }
  if (first >= 0xe0 && first < 0xf0) {
    const bool is_overlong = first == 0xe0 && second < 0xa0;
    const bool is_surrogate = first == 0xed && second >= 0xa0;
    return continues(1) && continues(2) && !is_overlong && !is_surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5) {
    const bool is_overlong = first == 0xf0 && second < 0x90;
    const bool is_too_large = first == 0xf4 && second >= 0x90;
    return continues(1) && continues(2) && continues(3) && !is_overlong && !is_too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    if (at >= kLongestBytes) return result += "...";
    const char character = text[at];
    const std::size_t bytes = printable_bytes(text.substr(at));
    if (character == '"' || character == '\\') {
      result += {'\\', character};
    } else if (character == '\n') {
      result += "\\n";
    } else if (character == '\t') {
      result += "\\t";
    } else if (bytes == 0) {
      const std::uint8_t code = byte_at(text, at);
      result += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
    } else {
      result += text.substr(at, bytes);
    }
    at += bytes == 0 ? 1 : bytes;
  }
  return result;
}

std::string quoted(std::string_view text) {
  std::string result = '"' + escaped(text) + '"';
  if (text.size() > kLongestBytes) result += " (" + grouped(text.size()) + " bytes)";
  return result;
}

}  // namespace keyway
