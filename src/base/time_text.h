// Times as the files of a run have them: UTC, to the millisecond.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace keyway {

// "2026-11-15T11:07:43.120Z"
void append_time(std::string& text, std::chrono::system_clock::time_point time);

// Of that form alone; nothing for any other.
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text);

}  // namespace keyway
