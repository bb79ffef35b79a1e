#include "report/page_data.h"

#include <algorithm>
#include <cmath>

#include "base/human_text.h"

namespace keyway {
namespace {

constexpr std::size_t kLongestListed = 50;

char letter_of(AttemptOutcome outcome) {
  switch (outcome) {
    case AttemptOutcome::kOk:
      return 'o';
    case AttemptOutcome::kRetry:
      return 'r';
    case AttemptOutcome::kFailed:
      return 'f';
    case AttemptOutcome::kTimedOut:
      return 't';
    case AttemptOutcome::kCancelled:
      return 'c';
  }
  return 'o';
}

const char* name_of(RunBound::Kind kind) {
  switch (kind) {
    case RunBound::Kind::kNone:
      return "none";
    case RunBound::Kind::kGroup:
      return "group";
    case RunBound::Kind::kPlaces:
      return "places";
    case RunBound::Kind::kItem:
      return "item";
  }
  return "none";
}

std::int64_t in_microseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

template <class Value>
void write_column(ScriptJson& json, std::string_view name,
                  const std::vector<KeptAttempts::Kept>& kept, Value value) {
  json.key(name).open('[');
  for (const KeptAttempts::Kept& attempt : kept) json.number(value(*attempt));
  json.close(']');
}

}  // namespace

PageData::PageData(const RunRecorder& recorder, const RunFacts& facts)
    : recorder_(recorder),
      facts_(facts),
      hot_(recorder.hot_groups_.top(recorder.bounds_.groups)),
      kept_(recorder.kept_.all()) {
  if (recorder.all_.attempts > 0) begin_ = recorder.first_queued_;
  for (const HotKeys::Entry& entry : hot_) names_.emplace(entry.key, names_.size());
  drawn_.resize(hot_.size());
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const LoggedAttempt& attempt = *kept_[i];
    places_.emplace(&attempt, i);
    const auto [name, is_new] = names_.emplace(attempt.group, names_.size());
    if (is_new) other_names_.push_back(attempt.group);
    if (name->second < drawn_.size()) ++drawn_[name->second];
  }
  axis_ = find_axis();
}

std::string PageData::headline() const {
  const ReportTexts& texts = recorder_.texts_;
  const AttemptCounts& all = recorder_.all_;
  const std::uint64_t ended = all.ok + all.failed + all.timed_out;
  const std::uint64_t failed = all.failed + all.timed_out;
  std::string result = grouped(ended) + " " + (ended == 1 ? texts.item : texts.items);
  if (ended == 0 && all.attempts == 0) return "No " + texts.items + " ran.";
  result += " in " + grouped(groups()) + " " + (groups() == 1 ? texts.group : texts.groups);
  result += " ended in " + human_duration(recorder_.elapsed()) + ": " + grouped(all.ok) + " ok, " +
            grouped(failed) + " failed";
  if (all.retries > 0)
    result += ", " + grouped(all.retries) + (all.retries == 1 ? " try" : " tries") + " repeated";
  return result + ".";
}

std::string PageData::json() const {
  ScriptJson json;
  json.open('{');
  write_run(json);
  write_series(json);
  write_groups(json);
  write_attempts(json);
  write_lists(json);
  json.close('}');
  return std::move(json).str();
}

PageData::Axis PageData::find_axis() const {
  const AttemptCounts& all = recorder_.all_;
  const double longest =
      static_cast<double>(std::max(all.running.max(), all.waiting.max()).count());
  // From the shortest hundredth on, but over no more than six powers of ten: what is shorter stands
  // at the left end.
  const double shortest =
      static_cast<double>(std::min(all.running.quantile(0.01), all.waiting.quantile(0.01)).count());
  const double high = std::log(std::max(longest, 1e6));
  const double low = std::max(std::log(std::max(shortest, 1e3)), high - std::log(1e6));
  return {.low = std::min(low, high - std::log(10.0)), .high = high};
}

std::uint64_t PageData::groups() const {
  return std::max<std::uint64_t>(facts_.groups, hot_.size());
}

std::int64_t PageData::microseconds(LoggedAttempt::Time time) const {
  return in_microseconds(time - begin_);
}

// One letter per bin, 0 to 9 and a to z: its height, 0 for nothing, at least 1 for something.
std::string PageData::bins(const Histogram& histogram) const {
  constexpr std::string_view kHeights = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::vector<std::uint64_t> counts(Axis::kBins);
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    const double middle = static_cast<double>((bucket.low + bucket.high).count()) / 2;
    const double part = (std::log(std::max(middle, 1.0)) - axis_.low) / (axis_.high - axis_.low);
    const int bin = static_cast<int>(std::floor(part * Axis::kBins));
    counts[static_cast<std::size_t>(std::clamp(bin, 0, Axis::kBins - 1))] += bucket.count;
  }
  const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
  std::string result;
  for (const std::uint64_t count : counts) {
    const double height =
        most == 0 ? 0 : std::ceil(static_cast<double>(count) * 35 / static_cast<double>(most));
    result += kHeights[static_cast<std::size_t>(height)];
  }
  return result;
}

void PageData::write_run(ScriptJson& json) const {
  const ReportTexts& texts = recorder_.texts_;
  json.key("texts").open('{');
  json.key("title").text(texts.title).key("command").text(texts.command);
  json.key("item").text(texts.item).key("items").text(texts.items);
  json.key("group").text(texts.group).key("groups").text(texts.groups);
  json.close('}');

  json.key("run").open('{');
  json.key("began").number(static_cast<std::int64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(begin_.time_since_epoch()).count()));
  json.key("elapsed").number(in_microseconds(recorder_.elapsed()));
  json.key("places").number(facts_.places);
  json.key("groups").number(groups());
  json.key("groupsCounted").number(facts_.groups > 0 || recorder_.groups_replaced_ == 0 ? 1 : 0);
  json.key("notRun").number(facts_.not_run).key("resumedPast").number(facts_.resumed_past);
  json.key("note").text(facts_.note);
  write_counts(json, recorder_.all_);
  const RunBound bound = recorder_.bound(facts_);
  json.key("bound").open('{');
  json.key("kind").text(name_of(bound.kind)).key("name").text(bound.name);
  json.key("attempts").number(bound.attempts).key("limit").number(bound.limit);
  json.key("needed").number(in_microseconds(bound.needed));
  json.close('}').close('}');
}

void PageData::write_counts(ScriptJson& json, const AttemptCounts& counts) const {
  const auto write_times = [&](const Histogram& histogram) {
    json.open('[');
    for (const double part : {0.5, 0.95, 0.99, 1.0}) {
      json.number(in_microseconds(histogram.quantile(part)));
    }
    json.close(']');
  };
  json.key("attempts").number(counts.attempts).key("ok").number(counts.ok);
  json.key("okAfterRetry").number(counts.ok_after_retry).key("retries").number(counts.retries);
  json.key("failed").number(counts.failed).key("timedOut").number(counts.timed_out);
  json.key("cancelled").number(counts.cancelled);
  json.key("busy").number(in_microseconds(counts.running.sum()));
  json.key("wait");
  write_times(counts.waiting);
  json.key("run");
  write_times(counts.running);
  json.key("waitBins").text(bins(counts.waiting)).key("runBins").text(bins(counts.running));
}

void PageData::write_series(ScriptJson& json) const {
  const TimeSeries& series = recorder_.over_time_;
  const bool empty = series.empty();
  json.key("series").open('{');
  json.key("begin").number(empty ? std::int64_t{0} : microseconds(series.begin()));
  json.key("width").number(in_microseconds(series.width()));
  json.key("running").numbers(series.spans(RunRecorder::kRunning));
  json.key("waiting").numbers(series.spans(RunRecorder::kWaiting));
  json.key("ok").numbers(series.events(RunRecorder::kOk));
  json.key("retried").numbers(series.events(RunRecorder::kRetried));
  json.key("failed").numbers(series.events(RunRecorder::kFailed));
  if (!empty && !recorder_.samples_.empty()) write_samples(json);
  json.close('}');
  json.key("axis").open('{');
  json.key("low")
      .number(std::exp(axis_.low) / 1000)
      .key("high")
      .number(std::exp(axis_.high) / 1000);
  json.close('}');
}

// In the buckets of the series: what was true at the end of each.
void PageData::write_samples(ScriptJson& json) const {
  const TimeSeries& series = recorder_.over_time_;
  const std::vector<StreamSample>& samples = recorder_.samples_;
  std::vector<std::uint64_t> watermark;
  std::vector<std::uint64_t> done_above;
  std::vector<std::uint64_t> in_flight;
  std::size_t next = 0;
  StreamSample now;
  for (std::size_t bucket = 1; bucket <= series.size(); ++bucket) {
    const auto end = series.begin() + std::chrono::duration_cast<TimeSeries::Time::duration>(
                                          series.width() * static_cast<std::int64_t>(bucket));
    while (next < samples.size() && samples[next].time < end) now = samples[next++];
    // It was taken after the last attempt.
    if (bucket == series.size()) now = recorder_.last_sample_;
    watermark.push_back(now.watermark);
    done_above.push_back(now.done_above);
    in_flight.push_back(now.in_flight);
  }
  json.key("watermark").numbers(watermark);
  json.key("doneAbove").numbers(done_above);
  json.key("inFlight").numbers(in_flight);
}

void PageData::write_groups(ScriptJson& json) const {
  json.key("groups").open('[');
  for (std::size_t i = 0; i < hot_.size(); ++i) {
    const RunRecorder::Group& group = recorder_.groups_[hot_[i].slot];
    json.open('{').key("name").text(hot_[i].key).key("limit").number(facts_.limit(hot_[i].key));
    // It may have had attempts before it was among those that are counted.
    json.key("partial").number(hot_[i].error > 0 ? 1 : 0);
    write_counts(json, group.counts);
    const bool is_lane = i < recorder_.bounds_.lanes;
    const bool left_out = drawn_[i] < group.counts.attempts;
    if (is_lane && left_out && !group.over_time.empty()) {
      json.key("strip").open('{');
      json.key("begin").number(microseconds(group.over_time.begin()));
      json.key("width").number(in_microseconds(group.over_time.width()));
      json.key("running").numbers(group.over_time.spans(0)).close('}');
    }
    json.close('}');
  }
  json.close(']');
  json.key("lanes").number(
      static_cast<std::uint64_t>(std::min(hot_.size(), recorder_.bounds_.lanes)));
  if (recorder_.groups_replaced_ > 0) {
    json.key("others").open('{');
    write_counts(json, recorder_.other_groups_);
    json.close('}');
  }
  json.key("otherNames").open('[');
  for (const std::string& name : other_names_) json.text(name);
  json.close(']');
}

// By columns: a row of names would be longer than the numbers. Starts and ends are relative to what
// comes before them, which keeps them short.
void PageData::write_attempts(ScriptJson& json) const {
  json.key("kept").open('{');
  json.key("id").open('[');
  for (const KeptAttempts::Kept& attempt : kept_) json.text(attempt->id);
  json.close(']');
  write_column(json, "group", kept_, [this](const LoggedAttempt& attempt) {
    return static_cast<std::uint64_t>(names_.at(attempt.group));
  });
  write_column(json, "queued", kept_,
               [this](const LoggedAttempt& attempt) { return microseconds(attempt.queued); });
  write_column(json, "wait", kept_, [this](const LoggedAttempt& attempt) {
    return microseconds(attempt.start) - microseconds(attempt.queued);
  });
  write_column(json, "run", kept_, [this](const LoggedAttempt& attempt) {
    return microseconds(attempt.end) - microseconds(attempt.start);
  });
  write_column(json, "seq", kept_, [](const LoggedAttempt& attempt) { return attempt.seq; });
  write_column(json, "attempt", kept_,
               [](const LoggedAttempt& attempt) { return attempt.attempt; });
  // A signal as a negative number.
  write_column(json, "exit", kept_, [](const LoggedAttempt& attempt) {
    return attempt.signal != 0 ? -attempt.signal : attempt.exit;
  });
  std::string outcomes;
  for (const KeptAttempts::Kept& attempt : kept_) outcomes += letter_of(attempt->outcome);
  json.key("outcome").text(outcomes).close('}');
}

void PageData::write_lists(ScriptJson& json) const {
  std::vector<std::uint64_t> longest;
  const auto take = [&](const std::vector<KeptAttempts::Kept>& attempts) {
    for (const KeptAttempts::Kept& attempt : attempts) longest.push_back(places_.at(attempt.get()));
  };
  take(recorder_.kept_.longest_runs(kLongestListed));
  json.key("longestRuns").numbers(longest);
  longest.clear();
  take(recorder_.kept_.longest_waits(kLongestListed));
  json.key("longestWaits").numbers(longest);
  json.key("failures").open('[');
  for (const KeptAttempts::Failure& failure : recorder_.kept_.failures()) {
    json.open('{').key("at").number(static_cast<std::uint64_t>(places_.at(failure.attempt.get())));
    json.key("output").text(failure.error_output).close('}');
  }
  json.close(']');
}

}  // namespace keyway
