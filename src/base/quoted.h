// Text of a user's inside a message: a key, an id.
#pragma once

#include <string>
#include <string_view>

namespace keyway {

// In double quotes. Quotes, backslashes, control characters and bytes that are not UTF-8 are escaped, so that the message
// stays on one line, is valid UTF-8, and a NUL does not cut it: "a\nb", "\x00". Of a text of more than 100 bytes only the
// beginning: "abc..." (5,000 bytes).
std::string quoted(std::string_view text);

// The same without the quotes and the number of bytes.
std::string escaped(std::string_view text);

}  // namespace keyway
