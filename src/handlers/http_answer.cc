#include "handlers/http_answer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "handlers/attempt_text.h"

namespace keyway::run {

namespace {

constexpr std::chrono::seconds kLongestDelay = std::chrono::hours(1);
constexpr std::size_t kShownBytes = 200;

// Takes a number of exactly so many digits, and the letter behind it.
bool take_number(std::string_view& text, std::size_t digits, char behind, int& number) {
  if (text.size() < digits + 1 || text[digits] != behind) return false;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + digits, number);
  if (failed != std::errc() || end != text.data() + digits || number < 0) return false;
  text.remove_prefix(digits + 1);
  return true;
}

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<std::chrono::sys_seconds> parse_http_date(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (text.size() != 29 || text.substr(3, 2) != ", ") return {};
  text.remove_prefix(5);
  int day = 0;
  int year = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (!take_number(text, 2, ' ', day)) return {};
  const auto month = std::find(kMonths.begin(), kMonths.end(), text.substr(0, 3));
  text.remove_prefix(4);
  if (month == kMonths.end() || !take_number(text, 4, ' ', year) ||
      !take_number(text, 2, ':', hour) || !take_number(text, 2, ':', minute) ||
      !take_number(text, 2, ' ', second) || text != "GMT") {
    return {};
  }
  namespace chrono = std::chrono;
  const chrono::year_month_day date(
      chrono::year(year), chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
      chrono::day(static_cast<unsigned>(day)));
  if (!date.ok()) return {};
  return chrono::sys_days(date) + chrono::hours(hour) + chrono::minutes(minute) +
         chrono::seconds(second);
}

}  // namespace

std::optional<Duration> parse_retry_after(std::string_view text,
                                          std::chrono::system_clock::time_point now) {
  using std::chrono::seconds;
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (is_number) {
    std::uint32_t number = 0;
    const auto failed = std::from_chars(text.data(), text.data() + text.size(), number).ec;
    if (failed != std::errc()) return kLongestDelay;  // more than anybody waits
    return std::min(seconds(number), kLongestDelay);
  }
  const std::optional<std::chrono::sys_seconds> date = parse_http_date(text);
  if (!date) return {};
  const seconds left = *date - std::chrono::floor<seconds>(now);
  return std::clamp(left, seconds(0), kLongestDelay);
}

Outcome outcome_of(const HttpExchange& exchange, std::chrono::system_clock::time_point now) {
  const int status = exchange.status;
  if (status == 0) return retry(exchange.failure);
  if (status >= 200 && status < 300) return done();
  std::string reason = "HTTP " + std::to_string(status);
  if (!exchange.phrase.empty()) reason += " " + excerpt(exchange.phrase, 60);
  if (status >= 300 && status < 400) {
    reason += ", which is not followed";
    if (!exchange.location.empty()) {
      reason += ": the records belong to " + excerpt(exchange.location, kShownBytes);
    }
    return permanent_failure(std::move(reason));
  }
  if (!exchange.answer.empty()) reason += ": " + excerpt(exchange.answer, kShownBytes);
  const bool is_temporary = status == 408 || status == 425 || status == 429 || status >= 500;
  if (!is_temporary) return permanent_failure(std::move(reason));
  return retry(std::move(reason), parse_retry_after(exchange.retry_after, now));
}

std::string header_value(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string value;
  value.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_outer_space = byte == ' ' && (i == 0 || i + 1 == text.size());
    if (byte < 0x20 || byte >= 0x7f || byte == '%' || is_outer_space) {
      value += '%';
      value += kHex[byte >> 4];
      value += kHex[byte & 15];
    } else {
      value += text[i];
    }
  }
  return value;
}

}  // namespace keyway::run
