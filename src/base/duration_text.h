// Durations as people write them: "500ms", "30s", "1.5m", "2h", "0"; a plain number is seconds.
#pragma once

#include <chrono>
#include <string_view>

#include "keyway/error.h"

namespace keyway {

// Never negative. The message of a failure quotes the text and shows what is understood; it does
// not say where the text stood, which the caller knows. Beyond a hundred years is a failure too.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace keyway
