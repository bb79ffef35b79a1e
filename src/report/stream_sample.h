// Where a stream stands at one time.
#pragma once

#include <chrono>
#include <cstdint>

namespace keyway {

struct StreamSample {
  std::chrono::system_clock::time_point time{};
  std::uint64_t watermark = 0;   // bytes: everything below is done
  std::uint64_t done_above = 0;  // records that are done above it
  std::uint64_t in_flight = 0;   // records that were read and are not done
};

}  // namespace keyway
