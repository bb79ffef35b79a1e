#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstdint>

#include "keyway/detail/enum_text.h"

namespace keyway {

enum class LockMode : std::uint8_t {
  kExclusive,  // nobody else
  kShared,     // beside others who share it
};

const char* to_string(LockMode mode);

}  // namespace keyway
