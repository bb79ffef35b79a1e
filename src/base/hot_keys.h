// The keys of a stream that occur most often, in bounded memory, however many keys there are.
// (The Space-Saving algorithm and its stream summary: Metwally, Agrawal, El Abbadi, "Efficient
// computation of frequent and top-k elements in data streams", 2005.)
//
//   HotKeys tenants(256);
//   tenants.add("tenant-7");
//   for (const HotKeys::Entry& hot : tenants.top(10)) ...    // hot.key, hot.count, hot.error
//
// It counts `capacity` keys at once. A key that is not among them takes the place of the one with
// the smallest count, and that count with it: by so much its own may be too high.
//
// Guarantees, where `total` is the sum of all weights:
//   (1) A key with more than total / capacity occurrences is in it.
//   (2) count - error <= the key's true number of occurrences <= count.
//   (3) No error is greater than total / capacity. While there have been no more than `capacity`
//       keys, all errors are 0.
//   (4) add() with weight 1 takes constant time; with a greater one it passes, besides, the
//       different counts between the key's old count and its new one.
//   (5) Memory: about 150 bytes for each key that is counted, and its text beyond 15 bytes.
// Not guaranteed: the order of keys whose counts differ by less than their errors.
//
// Thread safety: as std::vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash_key.h"

namespace keyway {

class HotKeys {
 public:
  // REQUIRES: capacity > 0.
  explicit HotKeys(std::size_t capacity);
  HotKeys(HotKeys&&) = default;
  HotKeys& operator=(HotKeys&&) = default;

  struct Place {
    std::size_t slot;  // below capacity; the key's own until another key takes it over
    bool is_new;       // the key has just taken it, from another one or for the first time
  };
  // The slot is for callers who keep something of their own for each key that is counted.
  Place add(std::string_view key, std::uint64_t weight = 1);

  // The key's, if it is counted.
  std::optional<std::size_t> slot_of(std::string_view key) const {
    const auto found = slots_.find(key);
    return found == slots_.end() ? std::nullopt : std::optional<std::size_t>(found->second);
  }

  struct Entry {
    std::string key;
    std::uint64_t count;
    std::uint64_t error;
    std::size_t slot;
  };
  // The n with the highest counts, highest first; of equal counts, in the order of the keys.
  std::vector<Entry> top(std::size_t n) const;

  std::uint64_t total() const { return total_; }
  std::size_t size() const { return counters_.size(); }
  std::size_t capacity() const { return capacity_; }

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = static_cast<Index>(-1);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const { return hash_key(key); }
  };
  using Slots = std::unordered_map<std::string, Index, Hash, std::equal_to<>>;

  struct Counter {
    const std::string* key = nullptr;  // in slots_, whose elements stay where they are
    std::uint64_t error = 0;
    Index level = kNone;
    Index before = kNone;  // of the same level
    Index after = kNone;
  };
  // All counters with the same count.
  struct Level {
    std::uint64_t count = 0;
    Index first = kNone;
    Index lower = kNone;
    Index higher = kNone;
  };

  Index new_level(std::uint64_t count, Index lower);
  // The level of that count, at or above `from`; a new one if there is none.
  // REQUIRES: the count is not below from's; or from is kNone, for the lowest.
  Index level_of(std::uint64_t count, Index from);
  void enter(Index counter, Index level);
  void leave(Index counter);  // and removes its level, if it was the last one there
  void raise(Index counter, std::uint64_t weight);

  std::size_t capacity_;
  std::uint64_t total_ = 0;
  Slots slots_;
  std::vector<Counter> counters_;
  std::vector<Level> levels_;
  std::vector<Index> free_levels_;
  Index lowest_ = kNone;
};

}  // namespace keyway
