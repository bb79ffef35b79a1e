// Sleeping on the value of a 32-bit atomic, with a deadline: what std::atomic::wait lacks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "keyway/detail/atomic.h"

namespace keyway {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // nullopt: for ever

// Sleeps while `word` holds `expected`, until a wake or the deadline. May return spuriously: the
// caller checks its condition again. False if the deadline has passed.
bool futex_wait(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
                Deadline deadline);

void futex_wake_one(const detail::Atomic<std::uint32_t>& word);
void futex_wake_all(const detail::Atomic<std::uint32_t>& word);

}  // namespace keyway
