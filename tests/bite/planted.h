// Whether the environment variable KEYWAY_BUG names this bug. Only the build of the preset `bite` has calls of it, in a
// copy of the sources: see bugs.cmake.
#pragma once

#include <cstdlib>
#include <cstring>

namespace keyway {

inline bool planted(const char* bug) {
  static const char* const wanted = std::getenv("KEYWAY_BUG");
  return wanted != nullptr && std::strcmp(wanted, bug) == 0;
}

}  // namespace keyway
