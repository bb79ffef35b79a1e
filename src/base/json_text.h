// Text as JSON writes it.
#pragma once

#include <string>
#include <string_view>

namespace keyway {

// With the quotes. Bytes that are no UTF-8 pass as they are.
void append_json_string(std::string& json, std::string_view text);

}  // namespace keyway
