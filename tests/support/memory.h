// For tests of what things weigh.
#pragma once

#include <cstdint>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEYWAY_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEYWAY_TEST_SANITIZED 1
#endif
#endif

namespace keyway {

#if defined(KEYWAY_TEST_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

#define KEYWAY_SKIP_IF_SANITIZED()                                                       \
  if (::keyway::kSanitized)                                                              \
  GTEST_SKIP() << "SKIPPED under a sanitizer: memory is not recycled there, and weighs " \
                  "more; run this test in the dev or release preset"

// What the system counts as this process's memory.
inline std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages_in_all = 0;
  std::int64_t pages_resident = 0;
  statm >> pages_in_all >> pages_resident;
  return pages_resident * sysconf(_SC_PAGESIZE);
}

}  // namespace keyway
