// Numbers as people read them: "12,345", "1.5 s".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace keyway {

std::string count_text(std::uint64_t count);
std::string duration_text(std::chrono::nanoseconds duration);

}  // namespace keyway
