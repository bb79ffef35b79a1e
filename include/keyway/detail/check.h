// A broken precondition ends the program at once, in every build: going on would run user code
// under rules that no longer hold.
#pragma once

namespace keyway::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* message);
}  // namespace keyway::detail

#define KEYWAY_CHECK(condition, message)                                       \
  do {                                                                         \
    if (!(condition)) [[unlikely]] {                                           \
      ::keyway::detail::check_failed(__FILE__, __LINE__, #condition, message); \
    }                                                                          \
  } while (false)
