// For tests that run many random schedules. A schedule is its seed: KEYWAY_SEED=n runs that one alone, and lets it say
// what happens; KEYWAY_SCHEDULES=n runs n of them in each part of a test.
//
// A Schedule is made of a seed and of whether a bug is planted in it; its run() gives the first thing that was wrong,
// or nothing.
#pragma once

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

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

// While it lives, a failed check of the library (which aborts) says which seed is replayed to see it again.
class NamesSeedOnAbort {
 public:
  explicit NamesSeedOnAbort(std::uint64_t seed) : before_(std::signal(SIGABRT, &print)) {
    std::snprintf(text_, sizeof text_, "replay it with KEYWAY_SEED=%llu\n",
                  static_cast<unsigned long long>(seed));
  }
  ~NamesSeedOnAbort() { std::signal(SIGABRT, before_); }
  NamesSeedOnAbort(const NamesSeedOnAbort&) = delete;
  NamesSeedOnAbort& operator=(const NamesSeedOnAbort&) = delete;

 private:
  static void print(int) {
    (void)!write(STDERR_FILENO, text_, std::strlen(text_));
    std::signal(SIGABRT, SIG_DFL);
  }

  static inline char text_[64] = "";
  void (*const before_)(int);
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
  for (std::uint64_t i = 0; i < schedules; ++i) {
    const std::uint64_t seed = part * schedules + i;
    const NamesSeedOnAbort names_seed(seed);
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
