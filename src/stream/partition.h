// One partition that is assigned: its ledger, what is in flight of it, and whether that is still wanted.
#pragma once

#include <cstdint>
#include <stop_token>
#include <utility>

#include "keyway/detail/atomic.h"
#include "keyway/record.h"
#include "stream/ledger.h"

namespace keyway {

struct Partition {
  explicit Partition(Progress committed) : last_commit(committed), ledger(std::move(committed)) {}

  // No record of it begins any more, and no record waits for its next try.
  void give_up() { drop.request_stop(); }
  bool is_dropped() const { return drop.stop_requested(); }

  std::stop_source drop;
  alignas(64) detail::Atomic<std::uint64_t> in_flight{0};

  // The pump's.
  struct Held {
    Record record;
    Ledger::Entry* entry = nullptr;
    TimePoint since{};
  };
  alignas(64) bool paused = false;
  bool is_listed = false;  // in Engine::unbalanced_
  Progress last_commit;
  Offset seen_watermark = -1;  // when it was looked at last, and since when it has been there
  TimePoint seen_since{};
  Ledger ledger;
};

}  // namespace keyway
