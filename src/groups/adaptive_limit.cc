#include "groups/adaptive_limit.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "keyway/detail/check.h"

namespace keyway {
namespace {

constexpr int kShortestWindow = 10;
constexpr int kLongestWindow = 200;
// A difference of so many standard errors is taken for chance. With 2, tasks whose times spread
// by a third end four above a knee of 8, with 1 two; with less, noise alone cuts the limit.
constexpr double kErrors = 1;
// A limit that is cut so often, or found to be so much too high, is probed again soon.
constexpr int kCutsUntilProbe = 3;
constexpr double kFarTooHigh = 0.9;
// The limit doubles until it has seen such a queue. Less may be jitter, or what it costs to run more tasks.
constexpr double kFirstQueue = 0.75;
// After that, so many small steps up before they become larger.
constexpr int kSmallSteps = 3;

std::size_t window_size(int limit) {
  return static_cast<std::size_t>(std::clamp(2 * limit, kShortestWindow, kLongestWindow));
}

}  // namespace

AdaptiveLimit::AdaptiveLimit(Options options)
    : options_(options),
      limit_(std::clamp(options.initial == 0 ? options.floor : options.initial, options.floor,
                        options.ceiling)),
      in_force_(static_cast<int>(limit_)) {
  KEYWAY_CHECK(1 <= options.floor && options.floor <= options.ceiling,
               "AdaptiveLimit: 1 <= floor <= ceiling");
}

int AdaptiveLimit::on_completed(Duration latency, int running, TimePoint now) {
  // More than the limit ran under an earlier one, when the task had just begun.
  const int peak = std::max(running, std::min(peak_since(now - latency, running, now), in_force_));
  // One that began under another limit tells of that one. So do the first that began under this
  // one, in part; and of these the short ones end first.
  if (in_force_since_ != TimePoint::min() && now - latency < in_force_since_) return in_force_;
  if (to_ignore_ > 0) {
    --to_ignore_;
    return in_force_;
  }
  latencies_.push_back(std::chrono::duration<double>(latency).count());
  running_sum_ += peak;
  if (peak >= in_force_) ++limit_reached_;
  if (latencies_.size() >= window_size(in_force_)) end_window(now);
  return in_force_;
}

// Tasks that began together end together, and the last of them sees none of the others. `running` falls
// only with a completion, so the completions see all of its peaks.
int AdaptiveLimit::peak_since(TimePoint began, int running, TimePoint now) {
  // Two threads may bring their times in the wrong order.
  const TimePoint time = peaks_.empty() ? now : std::max(now, peaks_.back().time);
  while (!peaks_.empty() && peaks_.back().running <= running) peaks_.pop_back();
  peaks_.push_back({time, running});
  const auto within =
      std::upper_bound(peaks_.begin(), peaks_.end() - 1, began,
                       [](TimePoint at, const Peak& peak) { return at < peak.time; });
  return within->running;
}

void AdaptiveLimit::end_window(TimePoint now) {
  const Measured measured = measure();
  const auto count = static_cast<double>(latencies_.size());
  const double mean_running = running_sum_ / count;
  const bool limit_reached = 2 * limit_reached_ >= static_cast<int>(latencies_.size());
  latencies_.clear();
  running_sum_ = 0;
  limit_reached_ = 0;

  if (probing_) {
    probing_ = false;
    base_ = measured;
    windows_to_probe_ = kProbeEvery;
    const double before = limit_;
    adjust(before_probe_, running_before_probe_, /*limit_reached=*/true);
    if (limit_ < before * kFarTooHigh) windows_to_probe_ = 1;
    put_in_force(rounded(), now);
    return;
  }
  const bool first = !has_base_;
  const bool as_good_as_a_probe = learn_base(measured, mean_running);
  // Until half of the tasks have been tried, nobody knows whether a queue is among the first times.
  const bool unknown = first && !as_good_as_a_probe;
  if (!unknown || !limit_reached) adjust(measured, mean_running, limit_reached);
  --windows_to_probe_;
  const bool due = unknown || windows_to_probe_ <= 0 || cuts_in_a_row_ >= kCutsUntilProbe;
  const int half = std::max(options_.floor, rounded() / 2);
  if (due && limit_reached && half < rounded()) {
    probing_ = true;
    before_probe_ = measured;
    running_before_probe_ = mean_running;
    cuts_in_a_row_ = 0;
    put_in_force(half, now);
  } else {
    put_in_force(rounded(), now);
  }
}

// True if a probe would tell nothing new.
bool AdaptiveLimit::learn_base(const Measured& measured, double mean_running) {
  // With so few inside nothing waits there, or nothing can be done about it.
  const bool as_good_as_a_probe = mean_running <= std::max(options_.floor, in_force_ / 2);
  const bool clearly_faster =
      measured.median + kErrors * std::hypot(measured.error, base_.error) < base_.median;
  if (!has_base_ || as_good_as_a_probe || clearly_faster) base_ = measured;
  if (as_good_as_a_probe) windows_to_probe_ = kProbeEvery;
  has_base_ = true;
  return as_good_as_a_probe;
}

void AdaptiveLimit::adjust(const Measured& measured, double mean_running, bool limit_reached) {
  const double chance = kErrors * std::hypot(measured.error, base_.error);
  const double excess = measured.median - base_.median - chance;
  const double before = limit_;
  const double queue = excess > 0 ? mean_running * excess / (base_.median + excess) : 0;
  if (queue > (queue_seen_ ? 0 : kFirstQueue)) {
    double aim = mean_running - queue + kQueue;
    if (!limit_reached) aim = std::min(aim, limit_);
    limit_ = std::max(aim, limit_ / 2);
    queue_seen_ = true;
    growths_in_a_row_ = 0;
  } else if (limit_reached) {
    limit_ += next_step();
  }
  limit_ = std::clamp(limit_, static_cast<double>(options_.floor),
                      static_cast<double>(options_.ceiling));
  cuts_in_a_row_ = limit_ < before ? cuts_in_a_row_ + 1 : 0;
}

// Doubles the limit until a queue was seen: one window then finds about where the knee is. Then small
// steps; larger ones after some, so that a thousand is reached in tens of windows.
double AdaptiveLimit::next_step() {
  if (!queue_seen_) return limit_;
  const int doublings = std::clamp(growths_in_a_row_ - kSmallSteps, 0, 10);
  ++growths_in_a_row_;
  return std::clamp(kQueue * (1 << doublings), 1.0, std::max(kQueue, limit_ / 2));
}

void AdaptiveLimit::put_in_force(int limit, TimePoint now) {
  if (limit == in_force_) return;
  in_force_ = limit;
  in_force_since_ = now;
  to_ignore_ = limit;
}

int AdaptiveLimit::rounded() const { return static_cast<int>(limit_); }

AdaptiveLimit::Measured AdaptiveLimit::measure() {
  std::sort(latencies_.begin(), latencies_.end());
  const std::size_t count = latencies_.size();
  const double quartiles = latencies_[count - 1 - count / 4] - latencies_[count / 4];
  // For values that spread normally, 1.35 standard deviations lie between the quartiles, and the
  // median of n has 1.25 / sqrt(n) of one as its error.
  const double error = quartiles / 1.35 * 1.25 / std::sqrt(static_cast<double>(count));
  return {.median = latencies_[count / 2], .error = error};
}

}  // namespace keyway
