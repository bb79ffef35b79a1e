// Numbers, times and names as people read them. Pure functions; every command prints with them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/human_text.h"

namespace keyway::cli {

std::string counted(std::uint64_t number, std::string_view singular,  // 1 -> "1 job", 2 -> "2 jobs"
                    std::string_view plural = {});

// What is left, as a clock shows it: "0:09", "12:40", "1:02:03", "3d 4:05:06".
std::string clock_duration(std::chrono::seconds time);

// Per second: "0.3/s", "4.2/s", "418/s", "12,400/s".
std::string human_rate(double per_second);

// How many columns of a terminal it takes: wide characters take two, combining ones none.
int display_width(std::string_view utf8);

// Cut to `columns`, with "..." where something is missing: at the end, or in front.
std::string shorten(std::string_view utf8, int columns);
std::string shorten_front(std::string_view utf8, int columns);

// Of the first character of `text`, which is not empty; 0 if it is not UTF-8.
std::size_t utf8_length(std::string_view text);

// Safe to print on a terminal: control characters and broken UTF-8 become \x1b and the like.
std::string printable(std::string_view text);

// `text` in lines of at most `columns`, broken at spaces; later lines begin with `indent` spaces.
// The first one is taken to begin at column `indent` already.
std::string wrapped(std::string_view text, int columns, int indent);

}  // namespace keyway::cli
