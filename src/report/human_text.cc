#include "report/human_text.h"

#include <cmath>
#include <cstdio>

namespace keyway {

std::string count_text(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t left = digits.size(); left > 3;) {
    left -= 3;
    digits.insert(left, ",");
  }
  return digits;
}

std::string duration_text(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto whole = std::llround(seconds);
  char text[64];
  if (seconds < 0.001) {
    std::snprintf(text, sizeof text, "%.0f µs", seconds * 1e6);
  } else if (seconds < 1) {
    std::snprintf(text, sizeof text, seconds < 0.010 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
  } else if (seconds < 100) {
    std::snprintf(text, sizeof text, seconds < 10 ? "%.2f s" : "%.1f s", seconds);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof text, "%lld m %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld h %02lld m", whole / 3600, whole / 60 % 60);
  }
  return text;
}

}  // namespace keyway
