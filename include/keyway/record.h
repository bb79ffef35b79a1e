// One item of a source.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keyway/scheduler.h"

namespace keyway {

using PartitionId = std::int32_t;
using Offset = std::int64_t;

struct RecordHeader {
  std::string_view name{};
  std::string_view value{};
};

// The texts live in the source's buffer, which a record keeps alive: a copy of it is cheap, and may be kept.
struct Record {
  PartitionId partition = 0;
  Offset offset = 0;         // where it begins
  Offset end = 0;            // where the next one may begin
  std::uint64_t number = 0;  // which one of the partition it is, from 1; 0: not counted
  std::optional<std::string_view> key{};    // none: it is in order with no other
  std::optional<std::string_view> group{};  // which limit it is under; none: that of its key
  std::string_view value{};
  std::vector<RecordHeader> headers{};
  std::optional<std::chrono::system_clock::time_point> time{};
  std::shared_ptr<const void> buffer{};
  // Not empty: why it cannot be handled. It becomes a dead letter without having been tried.
  std::string defect{};
};

// What a handler is told besides.
struct Attempt {
  int number = 1;      // from 1
  int most = 1;        // after which the record is dead
  TimePoint queued{};  // since when the record could have begun, had there been no limit
};

}  // namespace keyway
