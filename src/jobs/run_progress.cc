#include "jobs/run_progress.h"

namespace keyway::jobs {

Quantiles quantiles_of(const Histogram& histogram) {
  const auto at = [&](double part) {
    return std::chrono::duration_cast<std::chrono::microseconds>(histogram.quantile(part));
  };
  return {.p50 = at(0.5), .p95 = at(0.95), .p99 = at(0.99), .max = at(1)};
}

std::chrono::milliseconds in_milliseconds(Duration duration) {
  return std::chrono::round<std::chrono::milliseconds>(duration);
}

}  // namespace keyway::jobs
