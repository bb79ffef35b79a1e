#include "base/human_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace keyway {

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, 1, ',');
  return digits;
}

std::string human_duration(std::chrono::nanoseconds time) {
  const double us = static_cast<double>(std::max<std::int64_t>(time.count(), 0)) / 1e3;
  const auto text = [](const char* form, double number) {
    char result[32];
    std::snprintf(result, sizeof result, form, number);
    return std::string(result);
  };
  const auto two = [](std::int64_t large, const char* unit, std::int64_t small, const char* rest) {
    return std::to_string(large) + unit + " " + std::to_string(small) + rest;
  };
  // A limit is where the rounded text would reach the next unit: never "1000 ms", never "60.0 s".
  if (us < 999.5) return text("%.0f us", us);
  if (us < 9.95e3) return text("%.1f ms", us / 1e3);
  if (us < 999.5e3) return text("%.0f ms", us / 1e3);
  if (us < 59.95e6) return text("%.1f s", us / 1e6);
  const auto whole = static_cast<std::int64_t>(std::llround(us / 1e6));
  if (whole < 3600) return two(whole / 60, "m", whole % 60, "s");
  const std::int64_t minutes = (whole + 30) / 60;
  if (minutes < 24 * 60) return two(minutes / 60, "h", minutes % 60, "m");
  const std::int64_t hours = (minutes + 30) / 60;
  return two(hours / 24, "d", hours % 24, "h");
}

}  // namespace keyway
