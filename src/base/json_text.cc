#include "base/json_text.h"

namespace keyway {

void append_json_string(std::string& json, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  json += '"';
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      json += '\\';
      json += letter;
    } else if (letter == '\n') {
      json += "\\n";
    } else if (letter == '\t') {
      json += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      json += "\\u00";
      json += kHex[byte >> 4];
      json += kHex[byte & 15];
    } else {
      json += letter;
    }
  }
  json += '"';
}

}  // namespace keyway
