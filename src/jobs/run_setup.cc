#include "jobs/run_setup.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>

#include <sys/resource.h>

namespace keyway::jobs {

void allow_descriptors(int jobs) {
  rlimit limit{};
  const auto wanted = static_cast<rlim_t>(jobs) * 4 + 64;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t random_seed() {
  std::random_device entropy;
  return std::uint64_t{entropy()} << 32 | entropy();
}

std::string new_run_id(std::uint64_t random) {
  char text[32];
  std::snprintf(text, sizeof text, "%lx-%04x", static_cast<unsigned long>(time(nullptr)),
                static_cast<unsigned>(random & 0xffff));
  return text;
}

}  // namespace keyway::jobs
