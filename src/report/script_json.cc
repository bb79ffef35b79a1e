#include "report/script_json.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace keyway {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// How many bytes the character at the front has; 0 if there is no valid one.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xc2 && first < 0xe0   ? 2
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xf0 && first < 0xf5 ? 4
                                                           : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, half of a surrogate pair, beyond U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return size;
}

template <class Each>
void for_each_character(std::string_view text, Each each) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    each(size == 0 ? kReplacement : text.substr(0, size));
    text.remove_prefix(size == 0 ? 1 : size);
  }
}

}  // namespace

ScriptJson& ScriptJson::text(std::string_view value) {
  separate();
  json_ += '"';
  for_each_character(value, [this](std::string_view character) {
    const auto c = static_cast<unsigned char>(character[0]);
    if (c == '"' || c == '\\') {
      json_ += '\\';
      json_ += character;
    } else if (c == '\n') {
      json_ += "\\n";
    } else if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      json_ += escaped;
    } else {
      json_ += character;
    }
  });
  json_ += '"';
  return *this;
}

ScriptJson& ScriptJson::number(std::int64_t value) {
  separate();
  char digits[24];
  json_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  return *this;
}

ScriptJson& ScriptJson::number(double value) {
  separate();
  char digits[32];
  if (!std::isfinite(value)) value = 0;
  const auto written = std::to_chars(digits, digits + sizeof digits, value,
                                     std::chars_format::general, /*precision=*/4);
  json_.append(digits, written.ptr);
  return *this;
}

std::string html_text(std::string_view text) {
  std::string result;
  for_each_character(text, [&](std::string_view character) {
    switch (character[0]) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '\0':
        result += kReplacement;
        break;
      default:
        result += character;
    }
  });
  return result;
}

}  // namespace keyway
