// What an answer means for a record, and how its texts become headers.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "handlers/http_client.h"
#include "keyway/outcome.h"

namespace keyway::run {

// 2xx: done. 408, 425, 429, 5xx or no answer: retry, when Retry-After says. Others: permanent failure.
Outcome outcome_of(const HttpExchange& exchange, std::chrono::system_clock::time_point now);

// "120", or "Sun, 06 Nov 1994 08:49:37 GMT": how long from `now`, an hour at most. Nothing for what is neither.
std::optional<Duration> parse_retry_after(std::string_view text,
                                          std::chrono::system_clock::time_point now);

// Percent-encodes what a header cannot carry (control bytes, what is not ASCII, spaces at either end) and %.
std::string header_value(std::string_view text);

}  // namespace keyway::run
