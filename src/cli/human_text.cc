#include "cli/human_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace keyway::cli {
namespace {

using std::chrono::seconds;

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

// The first code point of `text`, which is not empty. A broken byte stands for itself.
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {lead, 1, false};
  char32_t value = lead & (0x7fU >> bytes);
  for (std::size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xc0U) != 0x80) return {lead, 1, false};
    value = value << 6U | (byte(at) & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kSmallest[bytes] || value > 0x10ffff || surrogate) return {lead, 1, false};
  return {value, bytes, true};
}

struct Range {
  char32_t first, last;
};

bool is_in(const auto& ranges, char32_t value) {
  return std::ranges::any_of(
      ranges, [&](const Range& range) { return value >= range.first && value <= range.last; });
}

int width_of(char32_t value) {
  static constexpr std::array<Range, 4> kCombining = {
      {{0x0300, 0x036f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}}};
  static constexpr std::array<Range, 9> kWide = {{{0x1100, 0x115f},
                                                  {0x2e80, 0xa4cf},
                                                  {0xac00, 0xd7a3},
                                                  {0xf900, 0xfaff},
                                                  {0xfe30, 0xfe6f},
                                                  {0xff00, 0xff60},
                                                  {0xffe0, 0xffe6},
                                                  {0x1f300, 0x1faff},
                                                  {0x20000, 0x3fffd}}};
  if (is_in(kCombining, value)) return 0;
  return is_in(kWide, value) ? 2 : 1;
}

bool is_control(char32_t value) { return value < 0x20 || (value >= 0x7f && value <= 0x9f); }

// The longest beginning of `text` that fits into `columns`.
std::string_view head(std::string_view text, int columns) {
  std::size_t end = 0;
  while (end < text.size()) {
    const CodePoint point = first_code_point(text.substr(end));
    columns -= width_of(point.value);
    if (columns < 0) break;
    end += point.bytes;
  }
  return text.substr(0, end);
}

}  // namespace

std::string counted(std::uint64_t number, std::string_view singular, std::string_view plural) {
  if (number == 1) return fmt::format("1 {}", singular);
  if (!plural.empty()) return fmt::format("{} {}", grouped(number), plural);
  return fmt::format("{} {}s", grouped(number), singular);
}

std::string clock_duration(seconds time) {
  const std::int64_t total = std::max<std::int64_t>(time.count(), 0);
  const std::int64_t days = total / 86400;
  const std::int64_t hours = total / 3600 % 24;
  const std::int64_t minutes = total / 60 % 60;
  if (days > 0) return fmt::format("{}d {}:{:02}:{:02}", days, hours, minutes, total % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

std::string human_rate(double per_second) {
  if (!(per_second > 0)) return "0/s";
  if (per_second < 9.95) return fmt::format("{:.1f}/s", per_second);
  const double most = static_cast<double>(std::numeric_limits<std::int64_t>::max()) / 2;
  return grouped(static_cast<std::uint64_t>(std::llround(std::min(per_second, most)))) + "/s";
}

int display_width(std::string_view utf8) {
  int columns = 0;
  while (!utf8.empty()) {
    const CodePoint point = first_code_point(utf8);
    columns += width_of(point.value);
    utf8.remove_prefix(point.bytes);
  }
  return columns;
}

std::string shorten(std::string_view utf8, int columns) {
  if (display_width(utf8) <= columns) return std::string(utf8);
  if (columns <= 3) return std::string(head(utf8, std::max(columns, 0)));
  return std::string(head(utf8, columns - 3)) + "...";
}

std::string shorten_front(std::string_view utf8, int columns) {
  if (display_width(utf8) <= columns) return std::string(utf8);
  const int kept = columns <= 3 ? std::max(columns, 0) : columns - 3;
  while (display_width(utf8) > kept) utf8.remove_prefix(first_code_point(utf8).bytes);
  return (columns <= 3 ? "" : "...") + std::string(utf8);
}

std::size_t utf8_length(std::string_view text) {
  const CodePoint point = first_code_point(text);
  return point.valid ? point.bytes : 0;
}

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.valid && !is_control(point.value)) {
      safe += text.substr(0, point.bytes);
    } else if (point.value == '\n') {
      safe += "\\n";
    } else if (point.value == '\t') {
      safe += "\\t";
    } else {
      for (const char byte : text.substr(0, point.bytes)) {
        safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(point.bytes);
  }
  return safe;
}

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string lines;
  int column = indent;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    const int width = display_width(word);
    if (column > indent && column + 1 + width > columns) {
      lines += '\n';
      lines.append(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += width;
  }
  return lines;
}

}  // namespace keyway::cli
