// One item of a source.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace keyway {

using PartitionId = std::int32_t;
using Offset = std::int64_t;

struct RecordHeader {
  std::string_view name;
  std::string_view value;
};

// The texts live in the source's buffer, which a record keeps alive: a copy of it is cheap, and may be kept.
struct Record {
  PartitionId partition = 0;
  Offset offset = 0;                    // where it begins
  Offset end = 0;                       // where the next one may begin
  std::optional<std::string_view> key;  // none: it is in order with no other
  std::string_view value;
  std::vector<RecordHeader> headers;
  std::optional<std::chrono::system_clock::time_point> time;
  std::shared_ptr<const void> buffer;
};

// What a handler is told besides.
struct Attempt {
  int number = 1;  // from 1
  int most = 1;    // after which the record is dead
};

}  // namespace keyway
