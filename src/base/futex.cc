#include "base/futex.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace keyway {

#if defined(KEYWAY_EXPLORE)

bool futex_wait(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
                Deadline deadline) {
  explore::before_access(&word);
  return word.value_now() != expected || explore::wait_on_word(&word, deadline);
}
void futex_wake_one(const detail::Atomic<std::uint32_t>& word) {
  explore::wake_word(&word, /*all=*/false);
}
void futex_wake_all(const detail::Atomic<std::uint32_t>& word) {
  explore::wake_word(&word, /*all=*/true);
}

#else

namespace {

long futex(const detail::Atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr,
                 FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

bool futex_wait(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
                Deadline deadline) {
  if (!deadline) {
    futex(word, FUTEX_WAIT_BITSET, expected, nullptr);
    return true;
  }
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, which is what steady_clock counts.
  // One from before the epoch has passed as well as the epoch itself.
  const auto since_boot =
      std::max(deadline->time_since_epoch(), std::chrono::steady_clock::duration::zero());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  const timespec until{
      .tv_sec = seconds.count(),
      .tv_nsec = std::chrono::nanoseconds(since_boot - seconds).count(),
  };
  return futex(word, FUTEX_WAIT_BITSET, expected, &until) == 0 || errno != ETIMEDOUT;
}

void futex_wake_one(const detail::Atomic<std::uint32_t>& word) {
  futex(word, FUTEX_WAKE_BITSET, 1, nullptr);
}

void futex_wake_all(const detail::Atomic<std::uint32_t>& word) {
  futex(word, FUTEX_WAKE_BITSET, INT_MAX, nullptr);
}

#endif

}  // namespace keyway
