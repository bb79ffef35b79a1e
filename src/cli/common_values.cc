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

}  // namespace keyway::cli
