#include "cli/common_values.h"

#include <charconv>
#include <string>

#include "base/duration_text.h"

namespace keyway::cli {
namespace {

Error expected(std::string form) { return {ErrorCode::kInvalidArgument, std::move(form)}; }

}  // namespace

Result<jobs::Backoff> parse_backoff(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto first = parse_duration(text.substr(0, dots));
  const auto most = dots == std::string_view::npos ? first : parse_duration(text.substr(dots + 2));
  if (!first || !most) return expected("must be two times, MIN..MAX");
  if (*first > *most) return expected("must begin with the shorter time");
  return jobs::Backoff{*first, *most};
}

Result<jobs::Halt> parse_halt(std::string_view text) {
  const Error form =
      expected("must be never, or now or soon and a number or percentage of failures");
  if (text == "never") return jobs::Halt{};
  jobs::Halt halt;
  const std::size_t comma = text.find(',');
  const std::string_view when = text.substr(0, comma);
  if (when == "now") {
    halt.when = jobs::Halt::When::kNow;
  } else if (when == "soon") {
    halt.when = jobs::Halt::When::kSoon;
  } else {
    return form;
  }
  std::string_view count = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  if (!count.starts_with("fail=")) return form;
  count.remove_prefix(5);
  halt.percent = count.ends_with('%');
  if (halt.percent) count.remove_suffix(1);
  const char* const end = count.data() + count.size();
  const auto [stop, failure] = std::from_chars(count.data(), end, halt.fail);
  if (failure != std::errc() || stop != end || count.empty()) return form;
  if (halt.fail < 1) return expected("must wait for at least one failure");
  if (halt.percent && halt.fail > 100) return expected("must be at most 100%");
  return halt;
}

Result<std::size_t> parse_size(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::size_t bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},
                             {"B", 1},
                             {"KiB", std::size_t{1} << 10},
                             {"MiB", std::size_t{1} << 20},
                             {"GiB", std::size_t{1} << 30},
                             {"kB", 1'000},
                             {"KB", 1'000},
                             {"MB", 1'000'000},
                             {"GB", 1'000'000'000}};
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  const Error form = expected("must be a number of bytes, with KiB, MiB or GiB if need be");
  if (failure != std::errc()) return form;
  const std::string_view name(stop, static_cast<std::size_t>(end - stop));
  for (const Unit& unit : kUnits) {
    if (name != unit.name) continue;
    if (number == 0) return expected("must be at least 1");
    if (number > (std::size_t{1} << 50) / unit.bytes) return expected("must be at most 1 PiB");
    return number * unit.bytes;
  }
  return form;
}

}  // namespace keyway::cli
