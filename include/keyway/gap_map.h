// Which offsets above a watermark are done: ranges, in ascending order, that do not touch.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "keyway/record.h"

namespace keyway {

struct OffsetRange {
  Offset begin = 0;
  Offset end = 0;  // not in it
  bool operator==(const OffsetRange&) const = default;
};

using GapMap = std::vector<OffsetRange>;

// REQUIRES: the ranges ascend.
inline bool contains(const GapMap& map, Offset offset) {
  const auto after =
      std::upper_bound(map.begin(), map.end(), offset,
                       [](Offset value, const OffsetRange& range) { return value < range.begin; });
  return after != map.begin() && offset < std::prev(after)->end;
}

}  // namespace keyway
