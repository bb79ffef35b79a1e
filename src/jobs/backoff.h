// How long whoever failed waits before it is tried again.
#pragma once

#include <chrono>

namespace keyway::jobs {

// Exponential, with full jitter: try n+1 begins after a random part of min(first * 2^(n-1), most).
struct Backoff {
  std::chrono::milliseconds first{500};
  std::chrono::milliseconds most{30'000};
};

}  // namespace keyway::jobs
