// When failures stop a run.
//
// A number: when so many have failed. A percentage: when at least this part of those that ended has
// failed, but not before kLeastEnded have ended, because one failure among the first two says
// little.
#pragma once

#include <cstdint>

namespace keyway::jobs {

struct Halt {
  enum class When { kNever, kSoon, kNow };  // soon: what runs finishes; now: it is ended
  When when = When::kNever;
  int fail = 1;
  bool percent = false;
};

inline constexpr std::uint64_t kLeastEnded = 10;

bool halt_is_reached(const Halt& halt, std::uint64_t failed, std::uint64_t ended);

}  // namespace keyway::jobs
