// Bytes as letters: RFC 4648, with padding.
#pragma once

#include <string>
#include <string_view>

namespace keyway::run {

void append_base64(std::string& text, std::string_view bytes);

}  // namespace keyway::run
