#include "base/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace keyway {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// REQUIRES: neither is negative.
std::int64_t saturated_sum(std::int64_t a, std::int64_t b) { return a > kMost - b ? kMost : a + b; }

// The array that `slot` points to, made by whoever comes first.
template <class Array>
Array& made_once(std::atomic<Array*>& slot) {
  // Acquire, here and below, pairs with the release of whoever made it: its zeros are there.
  Array* array = slot.load(std::memory_order_acquire);
  if (array != nullptr) return *array;
  auto made = std::make_unique<Array>();
  if (slot.compare_exchange_strong(array, made.get(), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
    return *made.release();
  }
  return *array;
}

}  // namespace

void Histogram::add(Nanoseconds duration) {
  duration = std::max(duration, Nanoseconds{0});
  add(Place::of(static_cast<std::uint64_t>(duration.count())), 1);
  sum_ = Nanoseconds{saturated_sum(sum_.count(), duration.count())};
  max_ = std::max(max_, duration);
}

void Histogram::merge(const Histogram& other) {
  // By index, and the size first: `other` may be this one.
  const std::size_t size = other.counts_.size();
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t times = other.counts_[i];
    if (times > 0) add(other.place_at(i), times);
  }
  sum_ = Nanoseconds{saturated_sum(sum_.count(), other.sum_.count())};
  max_ = std::max(max_, other.max_);
}

Histogram::Nanoseconds Histogram::quantile(double part) const {
  if (count_ == 0) return Nanoseconds{0};
  if (part >= 1) return max_;
  const double wanted = std::ceil(std::max(part, 0.0) * static_cast<double>(count_));
  const std::uint64_t rank = std::max(static_cast<std::uint64_t>(wanted), std::uint64_t{1});
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    if (below < rank) continue;
    const Place place = place_at(i);
    const std::uint64_t middle = place.lowest() + place.width() / 2;
    return std::min(max_, Nanoseconds{static_cast<std::int64_t>(middle)});
  }
  return max_;
}

std::vector<Histogram::Bucket> Histogram::buckets() const {
  std::vector<Bucket> result;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    const Place place = place_at(i);
    const Nanoseconds low{static_cast<std::int64_t>(place.lowest())};
    const Nanoseconds width{static_cast<std::int64_t>(place.width())};
    result.push_back({.low = low, .high = low + width, .count = counts_[i]});
  }
  return result;
}

void Histogram::add(Place place, std::uint64_t times) {
  include(place.octave);
  const int index = (place.octave - first_octave_) * Place::kPerOctave + place.step;
  counts_[static_cast<std::size_t>(index)] += times;
  count_ += times;
}

void Histogram::include(int octave) {
  constexpr auto kStep = static_cast<std::size_t>(Place::kPerOctave);
  if (counts_.empty()) first_octave_ = octave;
  if (octave < first_octave_) {
    const auto missing = static_cast<std::size_t>(first_octave_ - octave);
    counts_.insert(counts_.begin(), missing * kStep, 0);
    first_octave_ = octave;
  }
  const auto needed = static_cast<std::size_t>(octave - first_octave_ + 1) * kStep;
  if (counts_.size() >= needed) return;
  counts_.reserve(needed);  // to the octave, not to twice the size: there may be one per group
  counts_.resize(needed);
}

Histogram::Place Histogram::place_at(std::size_t index) const {
  const int at = static_cast<int>(index);
  return {.octave = first_octave_ + at / Place::kPerOctave, .step = at % Place::kPerOctave};
}

ConcurrentHistogram::~ConcurrentHistogram() {
  Octaves* octaves = octaves_.load(std::memory_order_relaxed);  // nobody else is here any more
  if (octaves == nullptr) return;
  for (const std::atomic<Octave*>& octave : *octaves) delete octave.load(std::memory_order_relaxed);
  delete octaves;
}

void ConcurrentHistogram::add(std::chrono::nanoseconds duration) {
  const std::int64_t length = std::max<std::int64_t>(duration.count(), 0);
  std::int64_t sum = sum_.load(std::memory_order_relaxed);
  while (!sum_.compare_exchange_weak(sum, saturated_sum(sum, length), std::memory_order_relaxed)) {
  }
  std::int64_t longest = max_.load(std::memory_order_relaxed);
  while (longest < length &&
         !max_.compare_exchange_weak(longest, length, std::memory_order_relaxed)) {
  }
  const Place place = Place::of(static_cast<std::uint64_t>(length));
  Octave& octave = made_once(made_once(octaves_)[static_cast<std::size_t>(place.octave)]);
  // Release pairs with the acquire in snapshot(): whoever counts it sees it in sum and max.
  octave[static_cast<std::size_t>(place.step)].fetch_add(1, std::memory_order_release);
}

Histogram ConcurrentHistogram::snapshot() const {
  Histogram result;
  const Octaves* octaves = octaves_.load(std::memory_order_acquire);
  if (octaves == nullptr) return result;
  for (int i = 0; i < Place::kOctaves; ++i) {
    const Octave* octave = (*octaves)[static_cast<std::size_t>(i)].load(std::memory_order_acquire);
    if (octave == nullptr) continue;
    for (int step = 0; step < Place::kPerOctave; ++step) {
      const std::uint64_t times =
          (*octave)[static_cast<std::size_t>(step)].load(std::memory_order_acquire);
      if (times > 0) result.add(Place{.octave = i, .step = step}, times);
    }
  }
  result.sum_ = std::chrono::nanoseconds{sum_.load(std::memory_order_relaxed)};
  result.max_ = std::chrono::nanoseconds{max_.load(std::memory_order_relaxed)};
  return result;
}

}  // namespace keyway
