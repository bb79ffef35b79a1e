#include "run/key_watch.h"

#include <algorithm>
#include <chrono>

namespace keyway::run {

template <class Change>
void KeyWatch::change(std::string_view key, Change what) {
  const auto place = now_.try_emplace(hash_key(key)).first;
  Records& records = place->second;
  const bool waited = records.waits();
  what(records);
  if (waited != records.waits()) records.waits() ? ++waiting_ : --waiting_;
  if (records.all == 0) now_.erase(place);
}

void KeyWatch::enter(std::string_view key) {
  seen_.insert(hash_key(key));
  change(key, [](Records& records) { ++records.all; });
}

void KeyWatch::start(std::string_view key) {
  change(key, [](Records& records) { ++records.started; });
}

void KeyWatch::leave(std::string_view key, bool started) {
  change(key, [started](Records& records) {
    records.all -= std::min(records.all, 1U);
    if (started) records.started -= std::min(records.started, 1U);
  });
}

void KeyWatch::add_time(std::string_view key, Duration time, bool is_last) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  const auto weight = static_cast<std::uint64_t>(std::max<std::int64_t>(micros, 1));
  const HotKeys::Place place = times_.add(key, weight);
  if (place.is_new) records_[place.slot] = 0;
  if (is_last) ++records_[place.slot];
}

std::optional<KeyWatch::Bound> KeyWatch::longest() const {
  const std::vector<HotKeys::Entry> top = times_.top(1);
  if (top.empty()) return std::nullopt;
  const HotKeys::Entry& entry = top.front();
  // What is surely its own.
  const std::uint64_t micros = entry.count - entry.error;
  return Bound{.key = entry.key,
               .records = records_[entry.slot],
               .time = std::chrono::microseconds(static_cast<std::int64_t>(micros))};
}

}  // namespace keyway::run
