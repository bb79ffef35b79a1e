// Which operations happen before which, by the memory orders that the sources give.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "explore/explorer.h"

namespace keyway::explore {

constexpr int kMainThread = kMaxThreads;

struct VectorClock {
  std::array<std::uint32_t, kMaxThreads + 1> times{};

  void join(const VectorClock& other) {
    for (std::size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], other.times[i]);
  }
};

// What the last writers of each address have released. Beside the atomics, not in them, so that the library's
// types keep their sizes.
class ReleasedClocks {
 public:
  // Null if nothing was released there.
  VectorClock* find(const void* address) {
    Slot& slot = slot_of(address);
    return slot.execution == execution_ && slot.address == address ? &slot.clock : nullptr;
  }
  VectorClock& make(const void* address) {
    Slot& slot = slot_of(address);
    if (slot.execution != execution_ || slot.address != address) slot = {address, execution_, {}};
    return slot.clock;
  }
  void erase(const void* address) {
    Slot& slot = slot_of(address);
    if (slot.address == address) slot.clock = {};
  }
  void begin_execution() { ++execution_; }

 private:
  struct Slot {
    const void* address = nullptr;
    std::uint64_t execution = 0;
    VectorClock clock;
  };
  Slot& slot_of(const void* address) {
    std::size_t index = (reinterpret_cast<std::uintptr_t>(address) >> 2) * 0x9e3779b97f4a7c15 >> 48;
    while (slots_[index].execution == execution_ && slots_[index].address != address) {
      index = (index + 1) % slots_.size();
    }
    return slots_[index];
  }
  std::vector<Slot> slots_{1 << 16};
  std::uint64_t execution_ = 1;
};

}  // namespace keyway::explore
