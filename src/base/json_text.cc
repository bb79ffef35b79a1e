#include "base/json_text.h"

namespace keyway {

void append_json_string(std::string& json, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  json += '"';
  std::size_t plain = 0;  // where the letters begin that pass as they are
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != 0x7f && byte != '"' && byte != '\\') continue;
    json.append(text, plain, i - plain);
    plain = i + 1;
    if (byte == '"' || byte == '\\') {
      json += '\\';
      json += text[i];
    } else if (byte == '\n') {
      json += "\\n";
    } else if (byte == '\t') {
      json += "\\t";
    } else {
      json += "\\u00";
      json += kHex[byte >> 4];
      json += kHex[byte & 15];
    }
  }
  json.append(text, plain);
  json += '"';
}

}  // namespace keyway
