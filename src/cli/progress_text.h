// Where a run stands, in one line: for a terminal, a log, or a machine. Pure functions.
//
//   jobs.jsonl 61% 6,102/10,000  ok 6,098 retry 8 failed 4  run 32/32  groups 211 (14 waiting)
//     418/s  eta 0:09                                                      (in the same line)
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "cli/console.h"
#include "cli/run_words.h"
#include "jobs/run_progress.h"

namespace keyway::cli {

// How fast jobs end, over the last ten seconds: what is true now, without jumping.
class RateMeter {
 public:
  void add(std::chrono::milliseconds elapsed, std::uint64_t ended);
  double per_second() const;  // 0 while nothing can be said

 private:
  struct Sample {
    std::chrono::milliseconds elapsed;
    std::uint64_t ended;
  };
  std::deque<Sample> samples_;  // at most kMost, oldest first
};

// What is left to do at this rate; nothing if total or rate are unknown.
std::optional<std::chrono::seconds> time_left(const jobs::Progress& progress, double per_second);

// Never wider than `columns`: what matters least is left out first.
std::string progress_line(const jobs::Progress& progress, double per_second, int columns,
                          const Style& style, const RunWords& words = kBatchWords);
std::string progress_json(const jobs::Progress& progress, double per_second,
                          const RunWords& words = kBatchWords);

}  // namespace keyway::cli
