// Text of a user's inside a message: a key, an id.
#pragma once

#include <string>
#include <string_view>

namespace keyway {

// In double quotes. Quotes, backslashes and control characters are escaped, so that the message stays on one line and a
// NUL does not cut it: "a\nb", "\x00".
std::string quoted(std::string_view text);

}  // namespace keyway
