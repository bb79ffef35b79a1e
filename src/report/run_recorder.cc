#include "report/run_recorder.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/hash_key.h"
#include "base/replace_file.h"
#include "report/page.h"
#include "report/page_data.h"

namespace keyway {
namespace {

// Queued, then started, then ended; one that never began has no time of its own.
LoggedAttempt put_in_order(const LoggedAttempt& attempt) {
  constexpr LoggedAttempt::Time kUnset{};
  LoggedAttempt result = attempt;
  if (result.end == kUnset) result.end = std::max(result.start, result.queued);
  if (result.start == kUnset) result.start = result.end;
  if (result.queued == kUnset) result.queued = result.start;
  result.start = std::max(result.start, result.queued);
  result.end = std::max(result.end, result.start);
  return result;
}

bool is_inside_a_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// A name that is too long keeps its beginning, and what tells it from others that begin the same.
std::string clipped_name(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  std::size_t end = most;
  while (end > 0 && is_inside_a_character(name[end])) --end;
  char mark[32];
  std::snprintf(mark, sizeof mark, "… (%08zx)", hash_key(name) & 0xffffffff);
  return name.substr(0, end) + mark;
}

// The last lines of it.
std::string_view clipped_output(std::string_view output, std::size_t most) {
  if (output.size() <= most) return output;
  output.remove_prefix(output.size() - most);
  const std::size_t line = output.find('\n');
  if (line != std::string_view::npos && line + 1 < output.size()) {
    output.remove_prefix(line + 1);
  } else {
    while (!output.empty() && is_inside_a_character(output.front())) output.remove_prefix(1);
  }
  return output;
}

}  // namespace

void AttemptCounts::add(const LoggedAttempt& attempt) {
  ++attempts;
  switch (attempt.outcome) {
    case AttemptOutcome::kOk:
      ++ok;
      if (attempt.attempt > 1) ++ok_after_retry;
      break;
    case AttemptOutcome::kRetry:
      ++retries;
      break;
    case AttemptOutcome::kFailed:
      ++failed;
      break;
    case AttemptOutcome::kTimedOut:
      ++timed_out;
      break;
    case AttemptOutcome::kCancelled:
      ++cancelled;
      break;
  }
  // Cancelled while it waited, or refused: it has no times.
  const bool had_no_exit =
      attempt.outcome == AttemptOutcome::kCancelled ||
      (attempt.outcome == AttemptOutcome::kFailed && attempt.exit == 0 && attempt.signal == 0);
  if (had_no_exit && attempt.start == attempt.end) return;
  waiting.add(attempt.start - attempt.queued);
  running.add(attempt.end - attempt.start);
}

void AttemptCounts::merge(const AttemptCounts& other) {
  attempts += other.attempts;
  ok += other.ok;
  ok_after_retry += other.ok_after_retry;
  retries += other.retries;
  failed += other.failed;
  timed_out += other.timed_out;
  cancelled += other.cancelled;
  waiting.merge(other.waiting);
  running.merge(other.running);
}

RunRecorder::RunRecorder(ReportTexts texts) : RunRecorder(std::move(texts), Bounds{}) {}

RunRecorder::RunRecorder(ReportTexts texts, Bounds bounds)
    : texts_(std::move(texts)),
      bounds_(bounds),
      over_time_({.most_buckets = bounds.buckets, .spans = kSpans, .events = kEvents}),
      hot_groups_(bounds.groups),
      kept_(bounds.kept) {}

void RunRecorder::add(const LoggedAttempt& given) {
  LoggedAttempt attempt = put_in_order(given);
  attempt.id = clipped_name(attempt.id, bounds_.text_bytes);
  attempt.group = clipped_name(attempt.group, bounds_.text_bytes);
  attempt.error_output = clipped_output(attempt.error_output, bounds_.error_output_bytes);
  attempt.key.clear();

  all_.add(attempt);
  first_queued_ = std::min(first_queued_, attempt.queued);
  last_end_ = std::max(last_end_, attempt.end);
  over_time_.add_span(kWaiting, attempt.queued, attempt.start);
  over_time_.add_span(kRunning, attempt.start, attempt.end);
  // Just before its end: the last one of a run is still inside it.
  const LoggedAttempt::Time ended =
      std::max(attempt.start, attempt.end - std::chrono::nanoseconds(1));
  switch (attempt.outcome) {
    case AttemptOutcome::kOk:
      over_time_.add_event(kOk, ended);
      break;
    case AttemptOutcome::kRetry:
      over_time_.add_event(kRetried, ended);
      break;
    case AttemptOutcome::kFailed:
    case AttemptOutcome::kTimedOut:
      over_time_.add_event(kFailed, ended);
      break;
    case AttemptOutcome::kCancelled:
      break;
  }
  add_to_group(attempt);
  kept_.add(attempt);
}

void RunRecorder::add(const StreamSample& sample) {
  last_sample_ = sample;
  if (samples_given_++ % samples_step_ != 0) return;
  samples_.push_back(sample);
  if (samples_.size() < bounds_.samples) return;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < samples_.size(); at += 2) samples_[kept++] = samples_[at];
  samples_.resize(kept);
  samples_step_ *= 2;
}

void RunRecorder::add_to_group(const LoggedAttempt& attempt) {
  using std::chrono::milliseconds;
  const auto run = std::chrono::duration_cast<milliseconds>(attempt.end - attempt.start).count();
  const auto weight = 1 + static_cast<std::uint64_t>(run);
  const HotKeys::Place place = hot_groups_.add(attempt.group, weight);
  const TimeSeries::Options over_time{.most_buckets = bounds_.lane_buckets, .spans = 1};
  if (place.slot == groups_.size()) {
    groups_.push_back({{}, TimeSeries(over_time)});
  } else if (place.is_new) {
    other_groups_.merge(groups_[place.slot].counts);
    groups_[place.slot] = {{}, TimeSeries(over_time)};
    ++groups_replaced_;
  }
  Group& group = groups_[place.slot];
  group.counts.add(attempt);
  group.over_time.add_span(0, attempt.start, attempt.end);
}

std::chrono::nanoseconds RunRecorder::elapsed() const {
  return all_.attempts == 0 ? std::chrono::nanoseconds{0} : last_end_ - first_queued_;
}

RunBound RunRecorder::bound(const RunFacts& facts) const {
  RunBound best;
  const auto consider = [&](RunBound bound) {
    if (bound.needed > best.needed) best = std::move(bound);
  };
  for (const KeptAttempts::Kept& attempt : kept_.longest_runs(1)) {
    consider({.kind = RunBound::Kind::kItem,
              .name = attempt->id,
              .attempts = 1,
              .needed = attempt->end - attempt->start});
  }
  if (facts.places > 0) {
    consider({.kind = RunBound::Kind::kPlaces,
              .attempts = all_.attempts,
              .limit = facts.places,
              .needed = all_.running.sum() / facts.places});
  }
  for (const HotKeys::Entry& entry : hot_groups_.top(bounds_.groups)) {
    const AttemptCounts& counts = groups_[entry.slot].counts;
    const int limit = facts.limit(entry.key);
    if (limit <= 0) continue;
    consider({.kind = RunBound::Kind::kGroup,
              .name = entry.key,
              .attempts = counts.attempts,
              .limit = limit,
              .needed = counts.running.sum() / limit});
  }
  return best;
}

std::string RunRecorder::json(const RunFacts& facts) const { return PageData(*this, facts).json(); }

std::string RunRecorder::html(const RunFacts& facts) const {
  const PageData data(*this, facts);
  return page(texts_, data.headline(), data.json());
}

Result<void> RunRecorder::write_html(const std::string& path, const RunFacts& facts) const {
  return replace_file(path, html(facts));
}

}  // namespace keyway
