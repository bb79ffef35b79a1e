// What the system says went wrong, as an Error.
#pragma once

#include <string>
#include <system_error>

#include "keyway/error.h"

namespace keyway {

inline std::string errno_text(int number) { return std::generic_category().message(number); }

// "cannot write x: No space left on device"
inline Error system_error(std::string what, int number) {
  return {ErrorCode::kIo, std::move(what) + ": " + errno_text(number), /*retryable=*/true};
}

}  // namespace keyway
