// Puts a new content in the place of a file, as a whole.
#pragma once

#include <string>
#include <string_view>

#include "keyway/error.h"

namespace keyway {

// There is the old content or the new one, whatever happens, also if the machine stops: it is
// written beside the file, brought to the disk, and renamed. On failure nothing stays behind. An error is retryable if
// time may help, as when the disk is full.
Result<void> replace_file(const std::string& path, std::string_view content);

}  // namespace keyway
