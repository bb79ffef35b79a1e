#include "base/duration_text.h"

#include <charconv>
#include <cmath>
#include <string>

namespace keyway {

namespace {

constexpr double kMostMs = 100.0 * 366 * 24 * 3600 * 1000;

// 0: no such unit.
double milliseconds_in(std::string_view unit) {
  if (unit == "ms") return 1;
  if (unit.empty() || unit == "s") return 1000;
  if (unit == "m") return 60'000;
  if (unit == "h") return 3'600'000;
  return 0;
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const bool is_number = failure == std::errc() && std::isfinite(number) && !std::signbit(number);
  const double unit = is_number ? milliseconds_in({rest, static_cast<std::size_t>(end - rest)}) : 0;
  if (unit == 0 || number * unit > kMostMs) {
    return Error{
        ErrorCode::kInvalidArgument,
        "\"" + std::string(text) + "\" is no duration; write it like 500ms, 30s, 1.5m or 2h"};
  }
  // Up: what is not 0 must not become 0, which often means "none".
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(number * unit)));
}

}  // namespace keyway
