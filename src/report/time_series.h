// Counts over time, in a bounded number of buckets: as time goes on they become wider.
//
//   TimeSeries series({.most_buckets = 1000, .spans = 1, .events = 1});
//   series.add_span(0, start, end);       // one more during that time
//   series.add_event(0, end);             // one at that time
//   series.spans(0);                      // per bucket, how many at once on average
//
// Guarantees:
//   (1) Never more than `most_buckets`, of equal width, at first a millisecond; once more time than
//       they hold has passed, at least half of them are in use.
//   (2) Nothing is lost when they become wider: the sums stay what they were.
//   (3) Times come in any order, also before all others.
//   (4) add_span() takes constant time, however long the span, but for the widening.
//
// Thread safety: as std::vector.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace keyway {

class TimeSeries {
 public:
  using Time = std::chrono::system_clock::time_point;
  using Width = std::chrono::nanoseconds;

  struct Options {
    std::size_t most_buckets = 1000;
    std::size_t spans = 1;
    std::size_t events = 0;
  };
  // REQUIRES: most_buckets >= 2.
  explicit TimeSeries(Options options);

  void add_span(std::size_t channel, Time from, Time to);
  void add_event(std::size_t channel, Time at);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  Time begin() const { return begin_; }
  Width width() const { return width_; }

  std::vector<double> spans(std::size_t channel) const;
  const std::vector<std::uint64_t>& events(std::size_t channel) const { return events_[channel]; }

 private:
  // Of a span, the buckets that it fills are between two entries of `changes`, and what it has of
  // the first and the last one is in `parts`.
  struct Spans {
    std::vector<std::int64_t> changes;
    std::vector<double> parts;  // in nanoseconds
  };

  std::size_t bucket_of(Time at) const;
  void include(Time at);
  void widen();
  void resize(std::size_t size);
  void insert_in_front(std::size_t count);
  std::vector<double> nanoseconds_of(const Spans& spans) const;

  std::size_t most_buckets_;
  std::size_t size_ = 0;
  Time begin_{};
  Width width_ = std::chrono::milliseconds(1);
  std::vector<Spans> spans_;
  std::vector<std::vector<std::uint64_t>> events_;
};

}  // namespace keyway
