// Which thread runs next: the ways in which the explorer chooses.
//
// A choice is asked for at each yield point where two or more threads can run. The default choice is to
// let the running thread go on, or the first thread that can run if the running one cannot. A schedule
// is written as the list of choices that differ from the default: "12:1,15:0" means that the 12th choice
// was thread 1, the 15th thread 0, and all others the default.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace keyway::explore {

struct Deviation {
  std::uint32_t choice = 0;  // which one, from 0
  std::uint32_t thread = 0;
};

std::string to_string(const Deviation* deviations, std::size_t count);
// REQUIRES: made by to_string().
std::vector<Deviation> parse_schedule(std::string_view text);

struct Choice {
  std::uint32_t can_run = 0;  // a bit for each thread; at least two
  int running = -1;           // the thread that asks; -1: none
  bool goes_on = false;       // whether the running thread is one of those that can run

  int first() const { return __builtin_ctz(can_run); }
  int by_default() const { return goes_on ? running : first(); }
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Prepares the next execution. False if there is none left.
  virtual bool next() = 0;
  virtual int choose(const Choice& choice) = 0;
  // Whether every interleaving within its bound was run.
  virtual bool is_exhausted() const { return false; }
  virtual std::uint64_t divergences() const { return 0; }
  // Of a replay: how many of the schedule's deviations were possible, and made.
  virtual std::uint64_t followed() const { return 0; }
};

// Every interleaving with at most so many preemptions: switches away from a thread that could go on.
std::unique_ptr<Strategy> exhaustive(int preemptions);
// Probabilistic concurrency testing: random priorities, and depth - 1 random points at which the running
// thread's priority becomes the lowest. Finds a fault that needs `depth` ordered events with a known
// minimal probability.
std::unique_ptr<Strategy> pct(int depth, std::uint64_t seed);
std::unique_ptr<Strategy> uniform(std::uint64_t seed);
// One execution. A deviation that is not possible, because the code has changed since, is left out.
std::unique_ptr<Strategy> replay(std::string_view schedule);

}  // namespace keyway::explore
