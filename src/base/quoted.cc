#include "base/quoted.h"

namespace keyway {

std::string quoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      result += {'\\', character};
    } else if (character == '\n') {
      result += "\\n";
    } else if (character == '\t') {
      result += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      result += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
    } else {
      result += character;
    }
  }
  return result += '"';
}

}  // namespace keyway
