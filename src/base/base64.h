// Bytes as text: the standard alphabet of base64, padded.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keyway {

std::string base64_encode(std::string_view bytes);

// Nothing for what is not exactly as base64_encode() writes it.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace keyway
