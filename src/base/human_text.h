// Numbers and times as people read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace keyway {

std::string grouped(std::uint64_t number);  // 10000 -> "10,000"

// Three digits at most, in the unit that fits: "850 us", "71 ms", "23.9 s", "4m 12s", "3h 5m",
// "2d 4h".
std::string human_duration(std::chrono::nanoseconds time);

}  // namespace keyway
