// What an exploring process tells its parent: in memory that they share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "explore/explorer.h"
#include "explore/strategy.h"

namespace keyway::explore {

// The parent reads it while the child runs and after it has ended, however it ended.
struct Report {
  std::atomic<std::uint64_t> executions{0};
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::uint64_t> distinct{0};
  std::uint64_t divergences = 0;
  std::uint64_t followed = 0;
  bool exhausted = false;
  bool complete = false;  // the child has ended as it should
  FailureKind failure = FailureKind::kNone;
  char message[1500] = {};

  // The schedule of the execution that runs now.
  std::array<Deviation, 20'000> deviations;
  std::uint32_t deviation_count = 0;
};

// Of the exploration in progress; null: there is none.
extern Report* report;

// Ends the exploring process, whatever its threads do.
[[noreturn]] void end_child();

}  // namespace keyway::explore
