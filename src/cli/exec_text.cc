#include "cli/exec_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/console.h"
#include "cli/human_text.h"

namespace keyway::cli {
namespace {

constexpr std::size_t kMostHoldersShown = 5;
constexpr std::chrono::minutes kWorthWaiting(5);

// In one unit: "9s", "4m", "3h", "2d".
std::string age_text(std::chrono::nanoseconds age) {
  const auto seconds =
      std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::seconds>(age).count(), 0);
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 60 * 60) return fmt::format("{}m", seconds / 60);
  if (seconds < 24 * 60 * 60) return fmt::format("{}h", seconds / (60 * 60));
  return fmt::format("{}d", seconds / (24 * 60 * 60));
}

std::string holder_text(const exec::Holder& holder) {
  if (holder.pid == 0) return "a process of unknown id";
  return fmt::format("pid {} ({}, {}{})", holder.pid, printable(holder.name), age_text(holder.age),
                     holder.is_gone ? ", ended, but what it started goes on" : "");
}

}  // namespace

std::string occupancy_text(const exec::Occupancy& occupancy, int limit) {
  const std::size_t held = occupancy.holders.size();
  std::string text = fmt::format("{} of {} held", held, limit);
  for (std::size_t i = 0; i < std::min(held, kMostHoldersShown); ++i) {
    text += (i == 0 ? " by " : ", ") + holder_text(occupancy.holders[i]);
  }
  if (held > kMostHoldersShown) text += fmt::format(" and {} more", held - kMostHoldersShown);
  if (occupancy.waiting > 0) text += fmt::format("; {} waiting in front", occupancy.waiting);
  return text;
}

Error full_error(const exec::Options& options, const exec::Occupancy& occupancy) {
  const bool waited_long = options.wait && *options.wait >= kWorthWaiting;
  return {ErrorCode::kRejected,
          with_next_step(fmt::format("key \"{}\" is full: {}", printable(options.key),
                                     occupancy_text(occupancy, options.limit)),
                         waited_long ? "no --wait, to wait as long as it takes" : "--wait 5m")};
}

}  // namespace keyway::cli
