#include "base/time_text.h"

namespace keyway {
namespace {

using namespace std::chrono;

void append_digits(std::string& text, long value, int digits) {
  char buffer[20];
  int at = 20;
  for (; digits > 0 || value > 0; --digits, value /= 10) {
    buffer[--at] = static_cast<char>('0' + value % 10);
  }
  text.append(buffer + at, static_cast<std::size_t>(20 - at));
}

// REQUIRES: they are digits.
int number_at(std::string_view text, std::size_t at, std::size_t digits) {
  int value = 0;
  for (const char digit : text.substr(at, digits)) value = value * 10 + (digit - '0');
  return value;
}

}  // namespace

void append_time(std::string& text, system_clock::time_point time) {
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<milliseconds>(time - day));
  append_digits(text, static_cast<int>(date.year()), 4);
  text += '-';
  append_digits(text, static_cast<unsigned>(date.month()), 2);
  text += '-';
  append_digits(text, static_cast<unsigned>(date.day()), 2);
  text += 'T';
  append_digits(text, clock.hours().count(), 2);
  text += ':';
  append_digits(text, clock.minutes().count(), 2);
  text += ':';
  append_digits(text, clock.seconds().count(), 2);
  text += '.';
  append_digits(text, clock.subseconds().count(), 3);
  text += 'Z';
}

std::optional<system_clock::time_point> parse_time(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t at = 0; at < kForm.size(); ++at) {
    const bool digit = text[at] >= '0' && text[at] <= '9';
    if (kForm[at] == '0' ? !digit : text[at] != kForm[at]) return std::nullopt;
  }
  const year_month_day date(year(number_at(text, 0, 4)),
                            month(static_cast<unsigned>(number_at(text, 5, 2))),
                            day(static_cast<unsigned>(number_at(text, 8, 2))));
  const hours hour(number_at(text, 11, 2));
  const minutes minute(number_at(text, 14, 2));
  const seconds second(number_at(text, 17, 2));
  if (!date.ok() || hour > hours(23) || minute > minutes(59) || second > seconds(59)) {
    return std::nullopt;
  }
  return sys_days(date) + hour + minute + second + milliseconds(number_at(text, 20, 3));
}

}  // namespace keyway
