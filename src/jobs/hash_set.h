// A set of 64-bit hashes: 8 bytes each in a table that is half to three quarters full once it has
// grown.
//
// What it answers is about hashes: of a million different texts, two have the same one with a
// chance of 3 in a hundred million. Who must be sure looks at the texts when it says yes.
//
// Thread safety: as std::vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace keyway::jobs {

class HashSet {
 public:
  // False if it was there already.
  bool insert(std::uint64_t hash) {
    if (hash == 0) return !std::exchange(has_zero_, true);  // 0 marks a free place
    if ((count_ + 1) * 4 > places_.size() * 3) grow();
    std::uint64_t& place = find(places_, hash);
    if (place == hash) return false;
    place = hash;
    ++count_;
    return true;
  }
  std::size_t size() const { return count_ + (has_zero_ ? 1 : 0); }

 private:
  static std::uint64_t& find(std::vector<std::uint64_t>& places, std::uint64_t hash) {
    const std::size_t mask = places.size() - 1;
    std::size_t at = hash & mask;
    while (places[at] != 0 && places[at] != hash) at = (at + 1) & mask;
    return places[at];
  }
  void grow() {
    std::vector<std::uint64_t> larger(places_.empty() ? 64 : places_.size() * 2);
    for (const std::uint64_t hash : places_) {
      if (hash != 0) find(larger, hash) = hash;
    }
    places_.swap(larger);
  }

  std::vector<std::uint64_t> places_;  // a power of two of them
  std::size_t count_ = 0;
  bool has_zero_ = false;
};

}  // namespace keyway::jobs
