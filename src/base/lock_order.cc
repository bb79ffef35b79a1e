#include "base/lock_order.h"

#if defined(KEYWAY_CHECK_LOCK_RANKS)

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "keyway/detail/check.h"

namespace keyway::lock_order {
namespace {

struct Held {
  std::array<LockRank, 16> ranks;  // in the order they were taken
  std::size_t count;
};
constinit thread_local Held held{};

[[noreturn]] void fail(const char* wants, LockRank wanted, LockRank holds) {
  std::fprintf(
      stderr,
      "keyway: wrong lock order: a thread %s %s (rank %d) while it holds %s (rank %d); see "
      "src/base/lock_ranks.h\n",
      wants, name_of(wanted), static_cast<int>(wanted), name_of(holds), static_cast<int>(holds));
  std::abort();
}

}  // namespace

void before_lock(LockRank rank) {
  for (std::size_t i = 0; i < held.count; ++i) {
    if (held.ranks[i] < rank || (is_users(held.ranks[i]) && is_users(rank))) continue;
    fail("locks", rank, held.ranks[i]);
  }
}

void locked(LockRank rank) {
  KEYWAY_CHECK(held.count < held.ranks.size(), "a thread holds more locks than there are ranks");
  held.ranks[held.count++] = rank;
}

void unlocked(LockRank rank) {
  // Usually the last one.
  for (std::size_t i = held.count; i > 0; --i) {
    if (held.ranks[i - 1] != rank) continue;
    for (; i < held.count; ++i) held.ranks[i - 1] = held.ranks[i];
    --held.count;
    return;
  }
  KEYWAY_CHECK(false, "a thread unlocks what it has not locked");
}

void before_wait(LockRank rank) {
  for (std::size_t i = 0; i < held.count; ++i) {
    if (held.ranks[i] != rank) fail("waits for a condition of", rank, held.ranks[i]);
  }
}

}  // namespace keyway::lock_order

#endif
