// What a batch is to do: the flags of `keyway batch`, parsed.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace keyway::batch {

using Millis = std::chrono::milliseconds;

enum class OutputMode { kGroup, kLine, kKeepOrder, kNone };

// Exponential, with full jitter: try n+1 begins after a random part of min(first * 2^(n-1), most).
struct Backoff {
  Millis first{500};
  Millis most{30'000};
};

// When failed jobs stop the run: at `fail` of them, or at that percentage of those that ended.
struct Halt {
  enum class When { kNever, kSoon, kNow };  // soon: what runs finishes; now: it is ended
  When when = When::kNever;
  int fail = 1;
  bool percent = false;
};

// Of one group; what is not set comes from Limits::standard.
struct GroupLimit {
  std::optional<int> limit;          // how many run at once
  std::optional<int> max_in_flight;  // at most, whatever `limit` says
  std::optional<int> queue;          // how many may wait; a job beyond is refused and fails
};

// A limits file, with --limit as its standard.
struct Limits {
  std::map<std::string, GroupLimit> groups;
  GroupLimit standard{.limit = 1, .max_in_flight = {}, .queue = {}};
};

struct Options {
  std::string jobs_file;  // "-": standard input
  std::string name;       // of the run, for standard input with a state folder
  int jobs = 1;           // how many at once, in all groups together
  Limits limits;
  int retries = 3;  // after the first try
  Backoff backoff;
  Millis timeout{0};  // of one try; 0: none
  Millis grace{30'000};
  Halt halt;
  OutputMode output = OutputMode::kGroup;
  std::string state_dir;    // empty: "<jobs_file>.keyway"
  bool fresh = false;       // forget an earlier run
  std::string report_file;  // empty: none
};

}  // namespace keyway::batch
