// The values of flags that have a form of their own. The message of a failure says only what form
// is expected: Settings::refuse() adds the value and where it came from.
#pragma once

#include <cstddef>
#include <string_view>

#include "jobs/backoff.h"
#include "jobs/halt.h"
#include "keyway/error.h"

namespace keyway::cli {

// "500ms..30s": the first wait, and the longest; "2s" alone is both.
Result<jobs::Backoff> parse_backoff(std::string_view text);

// "never", "now,fail=1", "soon,fail=3", "soon,fail=10%".
Result<jobs::Halt> parse_halt(std::string_view text);

// "256MiB", "10MB", "4096": bytes.
Result<std::size_t> parse_size(std::string_view text);

}  // namespace keyway::cli
