// What somebody may have meant by a word that is not known.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keyway::cli {

// The only known word that begins with `word`, else the nearest one by spelling, if one is near.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace keyway::cli
