// Who holds a lock, and who waits for it: see KeyLocks::explain().
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "keyway/lock_mode.h"
#include "keyway/scheduler.h"

namespace keyway {

struct LockHolder {
  std::string name{};  // task "1" of group "a", or the thread on which it was first locked
  LockMode mode = LockMode::kExclusive;
  std::uint32_t times = 0;  // how many guards it has
};

// A moment's picture: by the time it is read, things may have moved on.
struct LockExplanation {
  std::string key{};
  std::vector<LockHolder> holders{};
  std::uint64_t waiting = 0;
  std::optional<Duration> first_waits{};  // how long the first in line has waited

  // One line, for people: key "a": held by thread 4711; 2 waiting, the first for 1.5 s
  std::string text() const;
};

std::ostream& operator<<(std::ostream& out, const LockExplanation& explanation);

}  // namespace keyway
