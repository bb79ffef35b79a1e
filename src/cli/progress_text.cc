#include "cli/progress_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "cli/human_text.h"
#include "cli/json_text.h"

namespace keyway::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kWindow{10'000};
constexpr milliseconds kBetweenSamples{100};

struct Part {
  std::string text;
  int rank;  // the highest goes first when there is no room
  std::string styled;
};

Part part(std::string text, int rank) {
  std::string styled = text;
  return {std::move(text), rank, std::move(styled)};
}

std::string how_far(const jobs::Progress& progress) {
  if (!progress.total) return grouped(progress.ended);
  // Rounded down: 100% is said when it is true.
  const std::uint64_t total = *progress.total;
  const std::uint64_t percent = total == 0 ? 100 : progress.ended * 100 / total;
  return fmt::format("{}% {}/{}{}", percent, grouped(progress.ended),
                     progress.total_is_estimate ? "~" : "", grouped(total));
}

Part outcomes(const jobs::Progress& progress, const Style& style, const RunWords& words) {
  const std::string ok = fmt::format("ok {}", grouped(progress.ok));
  const std::string retry = fmt::format("retry {}", grouped(progress.retries));
  const std::string failed = fmt::format("{} {}", words.failed, grouped(progress.failed));
  return {
      fmt::format("{} {} {}", ok, retry, failed), 1,
      fmt::format("{} {} {}", style.green(ok), progress.retries == 0 ? retry : style.yellow(retry),
                  progress.failed == 0 ? failed : style.red(failed))};
}

int width_of(const std::vector<Part>& parts) {
  int width = 0;
  for (const Part& each : parts) width += display_width(each.text) + (width == 0 ? 0 : 2);
  return width;
}

}  // namespace

void RateMeter::add(milliseconds elapsed, std::uint64_t ended) {
  // A full second of samples that are closer together would only cost memory.
  if (samples_.size() > 1 && elapsed - samples_[samples_.size() - 2].elapsed < kBetweenSamples) {
    samples_.back() = {elapsed, ended};
    return;
  }
  samples_.push_back({elapsed, ended});
  while (samples_.size() > 2 && elapsed - samples_[1].elapsed >= kWindow) samples_.pop_front();
}

double RateMeter::per_second() const {
  if (samples_.size() < 2) return 0;
  const auto time = samples_.back().elapsed - samples_.front().elapsed;
  if (time <= milliseconds(0) || samples_.back().ended < samples_.front().ended) return 0;
  return static_cast<double>(samples_.back().ended - samples_.front().ended) * 1000.0 /
         static_cast<double>(time.count());
}

std::optional<seconds> time_left(const jobs::Progress& progress, double per_second) {
  if (!progress.total || !(per_second > 0) || *progress.total < progress.ended) return std::nullopt;
  const double left = static_cast<double>(*progress.total - progress.ended) / per_second;
  constexpr double kTooLong = 365.0 * 86400;
  if (left > kTooLong) return std::nullopt;
  return seconds(static_cast<std::int64_t>(std::ceil(left)));
}

std::string progress_line(const jobs::Progress& progress, double per_second, int columns,
                          const Style& style, const RunWords& words) {
  const std::string name = printable(progress.name);
  std::vector<Part> parts = {part(fmt::format("{} {}", name, how_far(progress)), 0)};
  parts.push_back(outcomes(progress, style, words));
  parts.push_back(part(fmt::format("run {}/{}", progress.running, progress.jobs), 3));
  std::string groups = fmt::format("{} {}", words.groups, grouped(progress.groups));
  if (progress.groups_waiting > 0) {
    groups += fmt::format(" ({} waiting)", grouped(progress.groups_waiting));
  }
  if (!words.is_stream || progress.groups > 0) parts.push_back(part(std::move(groups), 5));
  parts.push_back(part(human_rate(per_second), 4));
  if (const auto left = time_left(progress, per_second)) {
    parts.push_back(part("eta " + clock_duration(*left), 2));
  }
  while (parts.size() > 1 && width_of(parts) > columns) {
    parts.erase(std::ranges::max_element(parts, {}, &Part::rank));
  }
  if (width_of(parts) > columns) {
    // The name gives way to the numbers.
    const std::string numbers = how_far(progress);
    const int room = columns - display_width(numbers) - 1;
    return room < 4 ? shorten(numbers, columns) : shorten_front(name, room) + " " + numbers;
  }
  std::string line;
  for (const Part& each : parts) line += (line.empty() ? "" : "  ") + each.styled;
  return line;
}

std::string progress_json(const jobs::Progress& progress, double per_second,
                          const RunWords& words) {
  JsonObject object;
  object.add("type", "progress").add("name", progress.name);
  if (progress.total) {
    object.add("total", *progress.total);
  } else {
    object.add_null("total");
  }
  object.add("ended", progress.ended)
      .add("ok", progress.ok)
      .add("retries", progress.retries)
      .add(words.failed, progress.failed)
      .add("running", progress.running)
      .add("jobs", progress.jobs)
      .add(words.groups, progress.groups)
      .add(fmt::format("{}_waiting", words.groups), progress.groups_waiting)
      .add("elapsed_ms", progress.elapsed.count())
      .add("per_second", per_second);
  if (const auto left = time_left(progress, per_second)) {
    object.add("eta_s", left->count());
  } else {
    object.add_null("eta_s");
  }
  return object.text();
}

}  // namespace keyway::cli
