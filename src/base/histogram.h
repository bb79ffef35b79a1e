// How durations are distributed, in bounded memory, whatever their number.
//
//   Histogram waits;
//   waits.add(350ms);
//   waits.quantile(0.99);                 // 99 of 100 were not longer than about this
//
//   ConcurrentHistogram shared;           // the same for many threads
//   shared.add(350ms);
//   Histogram now = shared.snapshot();
//
// Each power of two nanoseconds, an octave, is split into 16 buckets of the same width. Octaves
// that nothing fell into take no memory.
//
// Guarantees:
//   (1) count, sum and max are exact; the sum stops at the longest duration there is, 292 years.
//   (2) A quantile is within 1/32 (3.2 %) of a duration that was added, for durations up to 2^49 ns
//       (156 hours); below 32 ns it is exact. It is never above max(), and quantile(1) is max().
//   (3) Memory: a Histogram is 56 bytes, and 128 for each octave between the shortest and the
//       longest duration: 6 KB at most. A ConcurrentHistogram is 24 bytes, once something was added
//       368 more, and 128 for each octave that is in use: 6.3 KB at most. Durations between 1 ms
//       and 1 s take 11 octaves, 1.4 KB.
//   (4) Merging loses nothing: it is the same as to add all durations to one histogram.
// What is longer than 156 hours counts as that in quantiles, what is negative as 0.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace keyway {

namespace detail {

// Where a number of nanoseconds belongs.
struct HistogramBucket {
  static constexpr int kPerOctave = 16;
  static constexpr std::uint64_t kLongest = (std::uint64_t{1} << 49) - 1;
  static constexpr int kOctaves = 46;  // the first is 0 to 15, the second 16 to 31, then 32 to 63

  static constexpr HistogramBucket of(std::uint64_t nanoseconds) {
    if (nanoseconds > kLongest) nanoseconds = kLongest;
    if (nanoseconds < kPerOctave) return {.octave = 0, .step = static_cast<int>(nanoseconds)};
    const int octave = std::bit_width(nanoseconds) - 4;
    return {.octave = octave, .step = static_cast<int>(nanoseconds >> (octave - 1)) - kPerOctave};
  }
  constexpr std::uint64_t width() const {
    return octave == 0 ? 1 : std::uint64_t{1} << (octave - 1);
  }
  constexpr std::uint64_t lowest() const {
    if (octave == 0) return static_cast<std::uint64_t>(step);
    return static_cast<std::uint64_t>(step + kPerOctave) << (octave - 1);
  }

  int octave = 0;
  int step = 0;
};

}  // namespace detail

// A plain value. Thread safety: as std::vector.
class Histogram {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  void add(Nanoseconds duration);
  void merge(const Histogram& other);

  std::uint64_t count() const { return count_; }
  Nanoseconds sum() const { return sum_; }
  Nanoseconds max() const { return max_; }
  // The shortest duration that is not exceeded by this part of all: 0.5 is the median. 0 if there
  // are none.
  Nanoseconds quantile(double part) const;

  // Those that durations fell into, shortest first; from `low` up to, not including, `high`.
  struct Bucket {
    Nanoseconds low;
    Nanoseconds high;
    std::uint64_t count;
  };
  std::vector<Bucket> buckets() const;

 private:
  friend class ConcurrentHistogram;
  using Place = detail::HistogramBucket;

  void add(Place place, std::uint64_t times);
  void include(int octave);
  Place place_at(std::size_t index) const;

  std::vector<std::uint64_t> counts_;  // of whole octaves, from first_octave_ on
  int first_octave_ = 0;
  std::uint64_t count_ = 0;
  Nanoseconds sum_{0};
  Nanoseconds max_{0};
};

// Thread safety: add() and snapshot() from any thread, without a lock; add() allocates when an
// octave is used for the first time.
// A snapshot that is taken while others add has some of what they add and not the rest; what it
// counts is in its sum and its max.
class ConcurrentHistogram {
 public:
  ConcurrentHistogram() = default;
  ~ConcurrentHistogram();
  ConcurrentHistogram(const ConcurrentHistogram&) = delete;
  ConcurrentHistogram& operator=(const ConcurrentHistogram&) = delete;

  void add(std::chrono::nanoseconds duration);
  Histogram snapshot() const;

 private:
  using Place = detail::HistogramBucket;
  using Octave = std::array<std::atomic<std::uint64_t>, Place::kPerOctave>;
  using Octaves = std::array<std::atomic<Octave*>, Place::kOctaves>;

  std::atomic<Octaves*> octaves_{nullptr};
  std::atomic<std::int64_t> sum_{0};
  std::atomic<std::int64_t> max_{0};
};

}  // namespace keyway
