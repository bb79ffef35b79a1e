// "Did you mean ...?" for a word that is not known.
#pragma once

#include <span>
#include <string_view>

namespace keyway {

// How many letters must be put in, left out, replaced, or swapped with their neighbour to make one
// word of the other; upper and lower case are the same.
int edit_distance(std::string_view left, std::string_view right);

// The known word nearest to `word`, the first of those equally near; empty if none is near: at most
// one edit for each three letters begun.
std::string_view suggest(std::string_view word, std::span<const std::string_view> known);

}  // namespace keyway
