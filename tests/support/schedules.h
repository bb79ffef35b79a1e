// For tests that run many random schedules. A schedule is its seed: KEYWAY_SEED=n runs that one alone, and lets it say
// what happens; KEYWAY_SCHEDULES=n runs n of them in each part of a test.
//
// A Schedule is made of a seed and of whether a bug is planted in it; its run() gives the first thing that was wrong,
// or nothing.
#pragma once

#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <unistd.h>

#include <gtest/gtest.h>

#include "support/memory.h"

namespace keyway {

inline std::optional<std::uint64_t> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

// Whether one seed is replayed.
inline bool replays_a_seed() { return number_from_environment("KEYWAY_SEED").has_value(); }

// Names the seed if a schedule ends the process.
class SeedOnAbort {
 public:
  SeedOnAbort() {
    std::signal(SIGABRT, [](int) {
      constexpr std::string_view kBefore = "replay it with KEYWAY_SEED=";
      (void)!write(STDERR_FILENO, kBefore.data(), kBefore.size());
      (void)!write(STDERR_FILENO, digits_, std::strlen(digits_));
      (void)!write(STDERR_FILENO, "\n", 1);
      std::signal(SIGABRT, SIG_DFL);
    });
  }
  ~SeedOnAbort() { std::signal(SIGABRT, SIG_DFL); }
  SeedOnAbort(const SeedOnAbort&) = delete;
  SeedOnAbort& operator=(const SeedOnAbort&) = delete;

  void set(std::uint64_t seed) { std::snprintf(digits_, sizeof digits_, "%" PRIu64, seed); }

 private:
  static inline char digits_[24] = "";
};

// Fewer under a sanitizer, which makes them slow.
template <class Schedule>
void expect_schedules_hold(std::uint64_t part, std::uint64_t schedules) {
  if (const auto seed = number_from_environment("KEYWAY_SEED")) {
    EXPECT_EQ(Schedule(*seed, false).run(), "");
    return;
  }
  if (kSanitized) schedules /= 25;
  schedules = number_from_environment("KEYWAY_SCHEDULES").value_or(schedules);
  SeedOnAbort on_abort;
  for (std::uint64_t i = 0; i < schedules; ++i) {
    const std::uint64_t seed = part * schedules + i;
    on_abort.set(seed);
    ASSERT_EQ(Schedule(seed, false).run(), "") << "replay it with KEYWAY_SEED=" << seed;
  }
}

// The planted bug shows in at least a tenth of the seeds by what they say is `wrong`, and never without it.
template <class Schedule>
void expect_planted_bug_is_found(const std::string& wrong) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string said = Schedule(seed, true).run();
    if (said.find(wrong) == std::string::npos) continue;
    ++found;
    EXPECT_EQ(Schedule(seed, true).run(), said) << "seed " << seed << " does not replay";
    EXPECT_EQ(Schedule(seed, false).run(), "") << "seed " << seed << " fails without the bug too";
  }
  EXPECT_GT(found, 100) << "the schedules hardly notice the bug";
}

}  // namespace keyway
