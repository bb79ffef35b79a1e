// The holds of one lock.
#pragma once

#include <cstdint>

#include <boost/unordered/unordered_flat_map.hpp>

#include "keyway/detail/operation.h"
#include "keyway/lock_mode.h"

namespace keyway::detail {

struct LockHold {
  static LockHold once(std::uint64_t operation, LockMode mode) {
    return {operation, mode == LockMode::kExclusive ? 1U : 0U, mode == LockMode::kShared ? 1U : 0U};
  }
  bool operator==(const LockHold&) const = default;

  std::uint64_t operation = 0;  // 0: unknown
  std::uint32_t exclusive = 0;  // how often
  std::uint32_t shared = 0;
};

// The holds of a lock beyond its first one. Many operations may share a lock, so a hold is found in constant time,
// and the holds of the rare kinds are counted.
//
// Thread safety: the lock of the entry's shard guards it.
class OtherHolds {
 public:
  bool empty() const { return holds_.empty(); }
  auto begin() const { return holds_.begin(); }  // of pairs: operation, LockHold
  auto end() const { return holds_.end(); }

  bool has_exclusive() const { return exclusive_ > 0; }
  // Whether a branch or another part of an operation has a hold: its locks may pass to its parent.
  bool has_parts() const { return parts_ > 0; }
  bool contains(std::uint64_t operation) const { return holds_.contains(operation); }
  // Null: the operation has no hold here.
  const LockHold* find(std::uint64_t operation) const {
    const auto found = holds_.find(operation);
    return found == holds_.end() ? nullptr : &found->second;
  }

  // REQUIRES: the operation has no hold here.
  void insert(const LockHold& hold) {
    holds_.emplace(hold.operation, hold);
    count(hold, 1);
  }
  // Takes the hold of this operation out; if there is none, what it returns is held 0 times.
  LockHold extract(std::uint64_t operation) {
    const auto found = holds_.find(operation);
    return found == holds_.end() ? LockHold{} : extract(found);
  }
  // REQUIRES: !empty()
  LockHold extract_any() { return extract(holds_.begin()); }

 private:
  using Map = boost::unordered_flat_map<std::uint64_t, LockHold>;

  LockHold extract(Map::iterator found) {
    const LockHold hold = found->second;
    count(hold, -1);
    holds_.erase(found);
    return hold;
  }
  void count(const LockHold& hold, int by) {
    if (hold.exclusive > 0) exclusive_ += by;
    if ((hold.operation & kPartBit) != 0) parts_ += by;
  }

  Map holds_;
  int exclusive_ = 0;  // the number of holds with an exclusive one
  int parts_ = 0;      // the number of holds whose operation has the kPartBit
};

}  // namespace keyway::detail
