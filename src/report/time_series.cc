#include "report/time_series.h"

#include <algorithm>

#include "keyway/detail/check.h"

namespace keyway {

TimeSeries::TimeSeries(Options options)
    : most_buckets_(options.most_buckets), spans_(options.spans), events_(options.events) {
  KEYWAY_CHECK(options.most_buckets >= 2, "TimeSeries: fewer than two buckets");
}

void TimeSeries::add_span(std::size_t channel, Time from, Time to) {
  if (to <= from) return;
  include(from);
  include(to - Width(1));
  Spans& spans = spans_[channel];
  const std::size_t first = bucket_of(from);
  const std::size_t last = bucket_of(to - Width(1));
  if (first == last) {
    spans.parts[first] += static_cast<double>(Width(to - from).count());
    return;
  }
  const auto start_of = [this](std::size_t i) { return begin_ + width_ * static_cast<int>(i); };
  spans.parts[first] += static_cast<double>(Width(start_of(first + 1) - from).count());
  spans.parts[last] += static_cast<double>(Width(to - start_of(last)).count());
  ++spans.changes[first + 1];
  --spans.changes[last];
}

void TimeSeries::add_event(std::size_t channel, Time at) {
  include(at);
  ++events_[channel][bucket_of(at)];
}

std::vector<double> TimeSeries::spans(std::size_t channel) const {
  std::vector<double> result = nanoseconds_of(spans_[channel]);
  for (double& value : result) value /= static_cast<double>(width_.count());
  return result;
}

std::size_t TimeSeries::bucket_of(Time at) const {
  return static_cast<std::size_t>((at - begin_) / width_);
}

void TimeSeries::include(Time at) {
  if (empty()) {
    begin_ = at;
    resize(1);
  }
  // Before the number of buckets is known to be small, it must not be made.
  while (at < begin_ && (begin_ - at) / width_ + 1 + static_cast<std::int64_t>(size_) >
                            static_cast<std::int64_t>(most_buckets_)) {
    widen();
  }
  if (at < begin_) insert_in_front(static_cast<std::size_t>((begin_ - at - Width(1)) / width_) + 1);
  while (bucket_of(at) >= most_buckets_) widen();
  if (bucket_of(at) >= size_) resize(bucket_of(at) + 1);
}

void TimeSeries::widen() {
  const std::size_t half = (size_ + 1) / 2;
  for (Spans& spans : spans_) {
    const std::vector<double> sums = nanoseconds_of(spans);
    spans.changes.assign(half, 0);
    spans.parts.assign(half, 0);
    for (std::size_t i = 0; i < sums.size(); ++i) spans.parts[i / 2] += sums[i];
  }
  for (std::vector<std::uint64_t>& counts : events_) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::uint64_t count = counts[i];
      counts[i] = 0;
      counts[i / 2] += count;
    }
    counts.resize(half);
  }
  size_ = half;
  width_ *= 2;
}

void TimeSeries::resize(std::size_t size) {
  for (Spans& spans : spans_) {
    spans.changes.resize(size);
    spans.parts.resize(size);
  }
  for (std::vector<std::uint64_t>& counts : events_) counts.resize(size);
  size_ = size;
}

void TimeSeries::insert_in_front(std::size_t count) {
  for (Spans& spans : spans_) {
    spans.changes.insert(spans.changes.begin(), count, 0);
    spans.parts.insert(spans.parts.begin(), count, 0);
  }
  for (std::vector<std::uint64_t>& counts : events_) counts.insert(counts.begin(), count, 0);
  size_ += count;
  begin_ -= width_ * static_cast<std::int64_t>(count);
}

std::vector<double> TimeSeries::nanoseconds_of(const Spans& spans) const {
  std::vector<double> result(spans.parts);
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    filled += spans.changes[i];
    result[i] += static_cast<double>(filled) * static_cast<double>(width_.count());
  }
  return result;
}

}  // namespace keyway
