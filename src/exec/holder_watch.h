// Waits until a slot may have become free: until the process that took one of them has ended, or the
// command that it left behind when it was killed.
//
// What a killed command left behind in turn cannot be watched. So that its slot is found free as
// well, no wait is longer than half a second. (A watch of the file would see it closed, but to end
// such a watch takes the kernel milliseconds, each time that a slot goes on to the next.)
//
// Thread safety: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "exec/key_file.h"

namespace keyway::exec {

class HolderWatch {
 public:
  // A wait that brings nothing is as long as this, and the next one longer, up to the longest.
  explicit HolderWatch(std::chrono::milliseconds shortest = std::chrono::milliseconds(1),
                       std::chrono::milliseconds longest = std::chrono::milliseconds(500))
      : shortest_(shortest), longest_(longest) {}

  // Those that hold all the slots there are. 0: look again. Else errno: EINTR.
  int wait(const std::vector<SlotRecord>& holders);

 private:
  using Process = std::pair<std::int32_t, std::int64_t>;  // an id may come again at another time

  const std::chrono::milliseconds shortest_;
  const std::chrono::milliseconds longest_;
  std::set<Process> ended_;
  std::chrono::milliseconds pause_ = shortest_;
};

}  // namespace keyway::exec
